"""Gold links where no file is named: those that ship inside the package."""

import pytest

from attnprobe.corpus.open import Embedded, read_embedded
from attnprobe.corpus.source import EMBEDDED
from attnprobe.session.texts import GoldLinks, open_gold


@pytest.mark.parametrize("named", [None, EMBEDDED, [EMBEDDED]])
@pytest.mark.parametrize(
    ("gold", "part"), [(GoldLinks.TREEBANK, Embedded.TREEBANK), (GoldLinks.COREFERENCE, Embedded.COREFERENCE)]
)
def test_without_a_file_the_package_has_one(gold, part, named):
    opened = open_gold(named, gold, {})
    assert opened.name == EMBEDDED
    assert list(opened.documents) == list(read_embedded(part))
