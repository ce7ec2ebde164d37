"""What stands in a page: data that can't end early, and a policy that names every script."""

import base64
import hashlib
import json
import re

import pytest

from attnprobe.reports.page import (
    embed_json,
    enclose,
    encode_json,
    render_chart_page,
)

SPEC = {"mark": "point", "data": {"values": [{"x": 1}]}, "title": {"text": "<b>&\u2028</script>"}}


def hashed(content):
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def test_data_come_back_and_hold_nothing_that_html_reads():
    hostile = {
        "a": "</script><script>alert(1)</script><!-- & \u2028\u2029 \U0001f600",
        "b": [1.5, None, "]]>"],
    }
    written = str(encode_json(hostile))
    assert not re.search("[<>&\u2028\u2029]", written)
    assert json.loads(written) == hostile
    with pytest.raises(ValueError, match="JSON"):
        encode_json({"x": float("nan")})


def test_every_script_and_style_of_the_page_is_in_its_policy_and_no_other():
    page = render_chart_page(SPEC)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)[1].replace("&#39;", "'")
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert "unsafe" not in policy
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    styles = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert rules["script-src"].split() == [hashed(content) for content in scripts]
    assert rules["style-src"].split() == [hashed(content) for content in styles]
    assert len(scripts) == 2
    assert len(styles) == 2
    assert page.lower().count("<script") == 3  # and the data


def test_a_page_without_scripts_runs_nothing():
    page = enclose([], [])
    assert "script-src 'none'" in page.policy
    assert "style-src 'none'" in page.policy
    assert str(page.scripts) == ""


@pytest.mark.parametrize("script", ["</script>", "a </SCRIPT >", "<!-- x"])
def test_a_script_that_would_end_early_is_refused(script):
    with pytest.raises(ValueError, match="its own end"):
        enclose([], [script])


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
    content = str(embed_json("data", hostile))
    inside = content.removeprefix('<script type="application/json" id="data">').removesuffix("</script>")
    assert not set("<>&") & set(inside)
    assert inside.isascii()
    assert json.loads(inside) == hostile
