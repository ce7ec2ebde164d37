"""What stands in a page: data that can't end early, and a policy that names every script."""

import base64
import hashlib
import json
import re
from xml.etree import ElementTree

import pytest

from attnprobe.reports.page import enclose, encode_json, frame_page, render_chart_page

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
    assert "<title>&lt;b&gt;&amp; &lt;/script&gt;</title>" in page


def test_a_frame_has_no_origin_and_ends_where_it_should():
    frame = ElementTree.fromstring(frame_page("<script>'\"</script></iframe>", "<b>", 9))
    assert set(frame.get("sandbox").split()) == {"allow-scripts", "allow-downloads"}
    assert (frame.get("srcdoc"), frame.get("title")) == ("<script>'\"</script></iframe>", "<b>")


@pytest.mark.parametrize("script", ["</script>", "a </SCRIPT >", "<!-- x"])
def test_a_script_that_would_end_early_is_refused(script):
    with pytest.raises(ValueError, match="its own end"):
        enclose([], [script])
