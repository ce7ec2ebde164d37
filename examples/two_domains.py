"""Ask whether the same heads matter in two domains: passages of stories, and lines of reports.

    python examples/two_domains.py [MODEL]

measures gradient importance on both sets of the sentences that ship with attnprobe, and correlates it over
heads. For your own domains, put two lists of texts, or two files, in place of ``stories`` and ``reports``.
"""

import sys
from importlib.resources import files

import attnprobe


def sentences(name: str) -> list[str]:
    """Read one of the files of sentences that ship with attnprobe."""
    path = files("attnprobe") / "corpus" / "sources" / "sentences" / f"{name}.txt"
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def main(model: str = "demo", limit: int | None = None) -> None:
    """Measure both domains and correlate them."""
    stories, reports = sentences("narrative")[:limit], sentences("technical")[:limit]
    in_domain = attnprobe.importance(model, stories, name="stories")
    out_domain = attnprobe.importance(model, reports, name="reports")
    compared = attnprobe.correlate(in_domain, out_domain)
    row = compared.to_pandas().iloc[0]
    print(f"Pearson's r over {row['heads']} heads: {row['pearson']:.3f}")
    print(f"95 % interval: {row['pearson_low']:.3f} to {row['pearson_high']:.3f}")
    print(f"reliability of each side: {row['reliability_in']:.3f} and {row['reliability_out']:.3f}")
    print(*compared.notes, sep="\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "demo")
