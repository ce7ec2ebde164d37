"""What stands in a page: data that can't end early, and a policy that names every script."""

import base64
import hashlib
import json
import re

import pytest

from attnprobe.reports.page.document import data_block, environment
from attnprobe.reports.page.page import picture_page
from attnprobe.reports.page.scripts import blocks_of, library

SPEC = {"mark": "point", "data": {"values": [{"x": 1}]}, "title": {"text": "<b>&\u2028</script>"}}


def hashed(content):
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def test_data_come_back_and_hold_nothing_that_html_reads():
    hostile = {
        "a": "</script><script>alert(1)</script><!-- & \u2028\u2029 \U0001f600",
        "b": [1.5, None, "]]>"],
    }
    written = str(data_block(hostile))
    assert not re.search("[<>&\u2028\u2029]", written)
    assert json.loads(written) == hostile
    with pytest.raises(ValueError, match="JSON"):
        data_block({"x": float("nan")})


def test_every_script_and_style_of_the_page_is_in_its_policy_and_no_other():
    page = picture_page(SPEC)
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


def test_the_library_does_not_end_its_block():
    assert "</script" not in library().lower()
    assert "<!--" not in library()
    assert "vegaEmbed" in library()


def test_blocks_of_one_page_are_told_apart():
    blocks = blocks_of([SPEC, SPEC], styles=["p { color: red }"], scripts=["'mine'"])
    assert len(blocks.places) == 2
    assert 'id="chart-1"' in blocks.places[0]
    assert 'data-chart="chart-2"' in blocks.places[1]
    assert hashed("'mine'") in blocks.policy
    assert hashed("p { color: red }") in blocks.policy


def test_a_page_without_charts_runs_nothing():
    blocks = blocks_of([])
    assert "script-src 'none'" in blocks.policy
    assert str(blocks.scripts) == ""


@pytest.mark.parametrize("script", ["</script>", "a </SCRIPT >", "<!-- x"])
def test_a_script_that_would_end_early_is_refused(script):
    with pytest.raises(ValueError, match="its own end"):
        blocks_of([], scripts=[script])


def test_templates_escape():
    assert (
        environment("attnprobe.reports.page").from_string("{{ x }}").render(x="<script>'\"&")
        == "&lt;script&gt;&#39;&#34;&amp;"
    )
    assert "<title>&lt;b&gt;&amp; &lt;/script&gt;</title>" in picture_page(SPEC)
