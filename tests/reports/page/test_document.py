"""A page lets its own script run, and no other."""

import base64
import hashlib
import json
import re

import pytest

from attnprobe.reports.page.document import bytes_script, data_script


def test_the_policy_names_the_script_and_the_style_of_the_page():
    import attnprobe

    page = attnprobe.view("demo", "The parcel came late.").html
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)[1].replace(
        "&#39;", "'"
    )
    parts = dict(part.split(" ", 1) for part in policy.split("; "))
    assert parts["default-src"] == "'none'"
    for name, tag in (("script-src", "script"), ("style-src", "style")):
        own = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert len(own) == 1
        digest = base64.b64encode(hashlib.sha256(own[0].encode()).digest()).decode()
        assert parts[name] == f"'sha256-{digest}'"
    assert "unsafe" not in policy
    assert "http" not in policy
    assert not re.findall(r'(?:src|href)="(?!data:)', page)
    assert set(re.findall(r"https?://[^\s\"'<]+", page)) == {"http://www.w3.org/2000/svg"}


def test_data_ends_no_script():
    hostile = {"a": "</script><script>x</script>", "b": "<!--", "c": "\u2028\ud800", "d": "]]>&"}
    content = str(data_script("data", hostile))
    inside = content.removeprefix('<script type="application/json" id="data">').removesuffix("</script>")
    assert not set("<>&") & set(inside)
    assert inside.isascii()
    assert json.loads(inside) == hostile


def test_bytes_are_base64():
    with pytest.raises(ValueError, match="no base64"):
        bytes_script("x", "AA</script>")
