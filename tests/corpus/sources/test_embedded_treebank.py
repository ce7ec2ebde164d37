"""The treebank in the package: trees after Universal Dependencies, of our own sentences."""

import conllu

from attnprobe.corpus.open import Embedded, open_embedded, read_embedded


def words(sentence):
    return [token for token in sentence if isinstance(token["id"], int)]


def read():
    text = "".join(stream.read().decode() for stream, _ in open_embedded(Embedded.TREEBANK))
    return conllu.parse(text)


SENTENCES = read()


def test_the_sentences_are_the_first_of_each_file_of_the_package():
    plain = {
        name.removesuffix(".txt"): stream.read().decode().splitlines()
        for stream, name in open_embedded(Embedded.SENTENCES)
    }
    found = {name: [] for name in plain}
    for sentence in SENTENCES:
        name, _, number = sentence.metadata["sent_id"].rpartition("-")
        found[name].append(sentence.metadata["text"])
        assert int(number) == len(found[name])
    for name, sentences in found.items():
        assert len(sentences) >= 60
        assert sentences == plain[name][: len(sentences)]


def test_the_reader_finds_every_link():
    documents = list(read_embedded(Embedded.TREEBANK))
    assert [document.text for document in documents] == [one.metadata["text"] for one in SENTENCES]
    for document, sentence in zip(documents, SENTENCES, strict=True):
        assert document.part_of is None  # each sentence is a document of its own
        inside = sum(token["id"][2] - token["id"][0] for token in sentence if token not in words(sentence))
        assert len(document.annotation.words) == len(words(sentence)) - inside  # "I'm" is one
        assert len(document.annotation.links) == len(words(sentence)) - 1
