"""Rows of tables as HTML: every text escaped, the first cell a head."""

from __future__ import annotations

from web.tables import Bar, Cell, Mark, number
from web.templatetags.cells import cells

BAD = '"><script>x</script>'
SAFE = "&quot;&gt;&lt;script&gt;x&lt;/script&gt;"


def test_the_first_cell_is_the_head_of_its_row() -> None:
    row = [Cell("atlas", "in1", "/projects/atlas/", "k-s1", "team"), number("0.0", zero=True), Cell(css="viz")]
    assert cells(row) == (
        '<th scope="row" class="in1"><span class="key k-s1"><a href="/projects/atlas/">atlas</a></span>'
        ' <span class="tag">team</span></th><td class="n zero">0.0</td><td class="viz"></td>'
    )


def test_a_bar_and_a_time() -> None:
    drawn = cells([Cell("a"), Cell(bar=Bar("41.37", "k-s2")), Cell("1 Oct", iso="2026-10-01T00:00:00+02:00")])
    assert '<rect class="f k-s2" y="1" width="41.37" height="8"/>' in drawn
    assert '<time datetime="2026-10-01T00:00:00+02:00">1 Oct</time>' in drawn


def test_everything_is_escaped() -> None:
    odd = Cell(BAD, BAD, BAD, BAD, BAD, Bar(BAD, BAD), BAD, BAD, BAD, [Mark(BAD, BAD)], BAD)
    drawn = cells([odd, odd])
    assert "<script" not in drawn
    assert drawn.count(SAFE) == 2 * 12 + 1  # the anchor stands on the head alone
