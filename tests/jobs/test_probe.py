import pytest
from tests.hand import *
pytestmark = pytest.mark.django_db
def test_x():
    tell(place(), job("1", at("2026-03-01 22:00"), at("2026-03-02 02:00"), **gpus(2)))
    p = tell(job("2", at("2026-03-01 22:00"), None, **gpus(1)), mapped("a", "p"), rate("gpu", 1000))
    print(ask("usage", "2026-03-01", "2026-03-03", "day", cut=instant("2026-03-02 12:00")).rows)
    print(ask("usage", "2026-03-01", "2026-03-03", "day", as_known_at="2").rows)
    print(ask("costs", "2026-03-01", "2026-03-03", "day", as_known_at=str(p)).rows)
    print(read_models())
