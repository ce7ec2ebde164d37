"""The fixture hears what it is to hear: a silent page passes, and each kind of noise is named."""

import pytest

pytestmark = pytest.mark.slow

#: A page, and what its noise is called.
NOISE = {
    "<script>console.log('said')</script>": ("console", "log: said"),
    "<script>throw new Error('broken')</script>": ("errors", "broken"),
    "<script>alert('stop')</script>": ("dialogs", "stop"),
    "<img src='https://example.org/x.png'>": ("requests", "https://example.org/x.png"),
    "<script>fetch('http://example.org/y').catch(() => 0)</script>": ("requests", "http://example.org/y"),
    "<link rel=stylesheet href='beside.css'>": ("requests", "beside.css"),
    "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'\"><img src='https://a.b/'>": (
        "console", "Content Security Policy",
    ),
}  # fmt: skip


def test_a_silent_page_passes(visit, tmp_path):
    path = tmp_path / "page.html"
    path.write_text("<!doctype html><title>x</title><img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>")
    seen = visit(path)
    seen.assert_silent()
    assert seen.page.title() == "x"


@pytest.mark.parametrize("body", NOISE)
def test_noise_is_heard(visit, tmp_path, body):
    path = tmp_path / "page.html"
    path.write_text(f"<!doctype html><title>x</title>{body}")
    seen = visit(path)
    seen.page.wait_for_timeout(100)
    kind, said = NOISE[body]
    assert any(said in found for found in getattr(seen, kind)), seen
    with pytest.raises(AssertionError, match=kind):
        seen.assert_silent()
