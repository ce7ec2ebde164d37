"""Tables that share a pass are about the same corpus, read in the same way."""

import pytest

from attnprobe.corpus.sources.document import Document
from attnprobe.model.load import load_checkpoint
from attnprobe.run.options import CorpusOptions
from attnprobe.run.progress import SilentProgress
from attnprobe.statistics.registry import all_statistics
from attnprobe.survey.survey import CorpusRequest, TableRequest, survey_corpora


@pytest.mark.parametrize("other", [{"max_length": 7}, {"limit": 1}, {"content_only": True}])
def test_other_options_of_the_same_corpus_are_refused(saved, other):
    """The numbers would be those of the first table's options, and the record would not say so."""
    documents, statistics = [Document("the dog ran .")], [all_statistics()["entropy"]]
    asked = [
        TableRequest([CorpusRequest(documents, statistics, CorpusOptions(**more))], "texts", {"command": "x"})
        for more in ({}, other)
    ]
    checkpoint = load_checkpoint(str(saved("bert")))
    with pytest.raises(ValueError, match="with the same options"):
        survey_corpora(checkpoint, asked, progress=SilentProgress())
    one, two = survey_corpora(checkpoint, [asked[0], asked[0]], progress=SilentProgress())
    assert one.table.to_csv() == two.table.to_csv()
