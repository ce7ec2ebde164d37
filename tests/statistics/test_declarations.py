"""What declares statistics and tables, which ``merge`` reads, needs neither torch nor numba."""

import subprocess
import sys

WITHOUT = """
import sys

class Never:
    def find_spec(self, name, *_):
        if name in {"torch", "transformers", "numba"}:
            raise RuntimeError(f"{name} was asked for")

sys.meta_path.insert(0, Never())

from attnprobe.statistics.registry import all_statistics, all_tabulations

print(len(all_statistics()), len(all_tabulations()))
"""


def test_declarations_alone_import_nothing_heavy():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(int(number) > 10 for number in done.stdout.split())
