"""What comes out: terminal, csv, json, markdown and parquet. Each receives a HeadTable."""
