"""Texts that several checkpoints read, one after the other."""

from attnprobe.session.texts import replay


def test_what_can_be_read_once_is_read_again():
    items = replay(iter("abc"))
    first, second = iter(items), iter(items)
    assert [next(first), next(second), next(first)] == ["a", "a", "b"]
    assert list(items) == ["a", "b", "c"]
    assert list(second) == ["b", "c"]
    texts = ["a"]
    assert replay(texts) is texts
