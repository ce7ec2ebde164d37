"""Print the figures attnprobe has to reach, measured on this machine.

    python tests/benchmarks/speed.py [--quick] [--only NAME]

Ratios are medians of processor time over the bare sdpa forward pass (inference mode, one thread)
of the same batches, both run in turns. With DEVICE=cuda in the environment, models run on a GPU, and time
on the wall is measured. Random weights: nothing is downloaded.
"""

import argparse
import sys

import torch
from calls import call_costs, callback_costs
from figures import show
from interventions import ablation_costs, gradient_costs, pruning_gains, relevance_costs
from links import link_costs
from pages import page_milliseconds, report_figures
from pictures import picture_seconds
from precision import precision_costs
from processes import length_memory, process_gains, text_memory, thread_gains
from race import race
from ratios import (
    all_pairs_costs,
    census_costs,
    comparison_costs,
    mixing_costs,
    norm_costs,
    rank_costs,
    tap_costs,
)

MEASUREMENTS = {
    "census": census_costs,
    "calls": call_costs,
    "precision": precision_costs,
    "norms": norm_costs,
    "tap": tap_costs,
    "all-pairs": all_pairs_costs,
    "compare": comparison_costs,
    "links": link_costs,
    "mixing": mixing_costs,
    "rank": rank_costs,
    "race": race,
    "gradient": gradient_costs,
    "relevance": relevance_costs,
    "ablation": ablation_costs,
    "callback": callback_costs,
    "pruning": pruning_gains,
    "threads": thread_gains,
    "processes": process_gains,
    "text-memory": text_memory,
    "length-memory": length_memory,
    "page": page_milliseconds,
    "report": report_figures,
    "pictures": picture_seconds,
}


def main() -> None:
    """Measure what was asked for and print one table."""
    parser = argparse.ArgumentParser(description="Measure the figures attnprobe has to reach.")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--only", choices=MEASUREMENTS, action="append", help="this measurement; repeatable")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    figures = []
    for name in arguments.only or MEASUREMENTS:
        sys.stderr.write(f"measuring {name} ...\n")
        figures += MEASUREMENTS[name](quick=arguments.quick)
    show(figures)


if __name__ == "__main__":
    main()
