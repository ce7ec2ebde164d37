"""Turn a census into a table for a paper: a row for each layer's most positional head, as LaTeX and as csv.

    python examples/census_for_a_paper.py [MODEL [FILE]]

prints a LaTeX table of values with their standard errors, and writes the whole census to ``census.csv``.
Without arguments it reads ``demo`` over the sentences that ship with attnprobe.
"""

import sys
from pathlib import Path

import pandas

import attnprobe

STATISTICS = ["previous", "next", "entropy_normalized", "separator"]


def with_errors(frame: pandas.DataFrame) -> pandas.DataFrame:
    """Write each number beside its standard error, with as many digits as the error allows."""
    cells = {"Head": [f"{layer}-{head}" for layer, head in zip(frame["layer"], frame["head"], strict=True)]}
    for name in STATISTICS:
        pairs = zip(frame[name], frame[f"{name}_se"], strict=True)
        cells[name.replace("_", " ")] = [f"${value:.3f} \\pm {error:.3f}$" for value, error in pairs]
    return pandas.DataFrame(cells)


def main(model: str = "demo", texts: str | None = None, output: str = "census.csv") -> None:
    """Measure, pick the heads, and print the table."""
    table = attnprobe.census(model, texts, statistics=STATISTICS)
    table.save(output, overwrite=True)
    frame = table.to_pandas()
    # The head of each layer that looks most at either neighbour.
    neighbour = frame[["previous", "next"]].max(axis=1)
    chosen = frame.loc[neighbour.groupby(frame["layer"]).idxmax()]
    print(with_errors(chosen).to_latex(index=False, column_format="l" + "r" * len(STATISTICS)), end="")
    print(f"% All heads: {Path(output).name}. Layers and heads count from 0.")


if __name__ == "__main__":
    main(*sys.argv[1:3])
