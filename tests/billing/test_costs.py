"""The report `costs`: use times dated price by hand, gaps that are never zero, rows that add up to the cent."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.access import Forbidden, Scope
from events.rebuild import known_at
from events.reports import Report
from events.types.rates import RateWithdrawn
from tests.hand import HOUR, ask, at, gpus, instant, job, mapped, place, project, rate, read_models, tell
from tests.invariants.worlds import FEW, forgotten

pytestmark = pytest.mark.django_db
MARCH = ("2026-03-01", "2026-04-01")
EURO = 1_000_000


def amounts(report: Report, key: str) -> dict[str, str | None]:
    return {row[key]: row["amount"]["amount"] for row in report.rows}


def hours(job_id: str, number: int, **fields: object) -> object:
    """A job of so many hours from 10 March 2026 06:00 on."""
    start = at("2026-03-10 06:00")
    return job(job_id, start, start + number * HOUR, **fields)


def cost(**options: object) -> str | None:
    return ask("costs", *MARCH, **options).total["amount"]["amount"]  # type: ignore[arg-type]


def test_two_classes_and_cpus_without_gpus() -> None:
    # 8 h100 x 3 h x 2.50 = 60.00; 4 h200 x 5 h x 4.00 = 80.00; 64 CPUs x 2 h x 0.01 = 1.28; the CPUs of a job with
    # GPUs cost nothing apart.
    tell(place(), rate("h100", 2_500_000), rate("h200", 4 * EURO), rate("cpu", 10_000),
         hours("1", 3, cpus=96, **gpus(8, "h100")), hours("2", 5, **gpus(4, "H200")),
         hours("3", 2, cpus=64))  # fmt: skip
    report = ask("costs", *MARCH, "resource_class")
    assert amounts(report, "resource_class") == {"h100": "60.00", "h200": "80.00", "cpu": "1.28"}
    assert report.total == {
        "amount": {"amount": "141.28", "currency": "EUR"}, "gpu_seconds": 44 * HOUR, "cpu_only_seconds": 128 * HOUR,
        "unpriced_gpu_seconds": 0, "unpriced_cpu_seconds": 0,
    }  # fmt: skip
    assert list(report.gaps) == []


def test_untyped_gpus_have_a_class_of_their_own() -> None:
    tell(place(), rate("gpu", EURO), rate("h100", 7 * EURO), hours("1", 1, gpus=5, gpu_types=("h100=2",)))
    # 2 typed at 7.00 and 3 without a type at 1.00.
    assert amounts(ask("costs", *MARCH, "resource_class"), "resource_class") == {"h100": "14.00", "gpu": "3.00"}


@pytest.mark.parametrize(
    ("zone", "amount"),
    [("UTC", "46.00"), ("Europe/Berlin", "47.00"), ("Asia/Kathmandu", "51.75")],
)
def test_a_price_changes_at_the_midnight_of_the_site(zone: str, amount: str) -> None:
    # 1 GPU from 10 March 06:00 UTC for 32 h, at 1.00 and from 11 March on at 2.00. Before the midnight of the site:
    # 18 h in UTC, 17 h in Berlin (UTC+1), 12.25 h in Kathmandu (UTC+5:45). 18 + 2*14, 17 + 2*15, 12.25 + 2*19.75.
    tell(place(zone), rate("gpu", EURO), rate("gpu", 2 * EURO, "2026-03-11"), hours("1", 32, **gpus(1)))
    assert cost() == amount


def test_a_running_attempt_costs_to_the_cut() -> None:
    tell(place(), rate("gpu", EURO), job("1", at("2026-03-10 06:00"), None, **gpus(2)))
    assert cost(cut=instant("2026-03-10 09:30")) == "7.00"


def test_a_corrected_price_holds_from_its_day_and_the_old_figure_stays_known() -> None:
    before = tell(place(), rate("gpu", EURO, "2026-03-01"), hours("1", 10, **gpus(1)))
    assert cost() == "10.00"
    tell(rate("gpu", 3 * EURO, "2026-03-01"))
    assert cost() == "30.00"
    assert cost(as_known_at=str(before)) == "10.00"
    back = tell(rate("gpu", EURO, "2026-03-01"), key="back")
    assert cost() == "10.00"
    live = read_models()
    with known_at(back):
        assert read_models() == live


def test_use_before_any_price_is_a_gap() -> None:
    tell(place(), rate("gpu", EURO, "2026-03-11"), hours("1", 24, **gpus(1)))
    # 10 March 06:00 to 24:00 has no price: 18 h; then 6 h at 1.00.
    report = ask("costs", *MARCH, "day")
    assert report.total["amount"]["amount"] == "6.00"
    assert amounts(report, "day") == {"2026-03-10": None, "2026-03-11": "6.00"}
    assert report.total["unpriced_gpu_seconds"] == 18 * HOUR
    assert list(report.gaps) == [{
        "resource_class": "gpu", "from": "2026-03-10", "to": "2026-03-10", "gpu_seconds": 18 * HOUR,
        "reason": "no price on these days",
    }]  # fmt: skip


def test_a_withdrawn_price_is_a_gap_and_never_zero() -> None:
    tell(place(), rate("gpu", EURO), rate("cpu", EURO), hours("1", 24, **gpus(1)), hours("2", 1, cpus=3))
    tell(RateWithdrawn(resource_class="gpu", from_day="2026-03-01"))
    tell(RateWithdrawn(resource_class="cpu", from_day="2026-03-01"))
    report = ask("costs", *MARCH, "project")
    assert amounts(report, "project") == {"unmapped/a": None}
    assert report.total["amount"] == {"amount": None, "currency": "EUR"}
    assert [(gap["resource_class"], gap.get("gpu_seconds"), gap.get("cpu_seconds")) for gap in report.gaps] == [
        ("cpu", None, 3 * HOUR), ("gpu", 24 * HOUR, None),
    ]  # fmt: skip
    tell(rate("gpu", EURO, "2026-03-11"))  # a price again from the next day on: 6 h of 24
    assert cost() == "6.00"


def test_a_price_of_zero_is_a_price() -> None:
    tell(place(), rate("gpu", 0), hours("1", 24, **gpus(1)))
    report = ask("costs", *MARCH)
    assert (report.total["amount"]["amount"], list(report.gaps)) == ("0.00", [])


def test_a_price_in_another_currency_is_a_gap_with_its_reason() -> None:
    tell(place(currency="EUR"), rate("gpu", EURO, currency="USD"), hours("1", 2, **gpus(1)))
    report = ask("costs", *MARCH)
    assert report.total["amount"]["amount"] is None
    assert [gap["reason"] for gap in report.gaps] == ["priced in USD, the books are in EUR"]
    tell(place(currency="USD"))
    assert ask("costs", *MARCH).total["amount"] == {"amount": "2.00", "currency": "USD"}


def test_thirds_of_a_cent_add_up() -> None:
    # 3 accounts x 1 GPU x 1 h at 0.013333: 1.3333 cents each, 3.9999 together: 4 cents; the first gets the odd one.
    tell(place(), rate("gpu", 13_333), *(hours(name, 1, account=name, **gpus(1)) for name in "abc"))
    report = ask("costs", *MARCH, "account")
    assert amounts(report, "account") == {"a": "0.02", "b": "0.01", "c": "0.01"}
    assert report.total["amount"]["amount"] == "0.04"


@FEW
@given(st.lists(st.tuples(st.integers(1, 10**5), st.integers(1, 16), st.sampled_from("abc"), st.sampled_from("uvw")),
                min_size=1, max_size=6), st.integers(1, 10**7), st.integers(1, 10**7))  # fmt: skip
def test_rows_of_any_grouping_add_up_to_one_total(uses: list[tuple[int, int, str, str]], one: int, two: int) -> None:
    start = at("2026-03-10 06:00")
    said = [job(str(number), start, start + seconds, account=account, user=user, **gpus(count))
            for number, (seconds, count, account, user) in enumerate(uses)]  # fmt: skip
    exact = sum(
        count * (min(seconds, 18 * HOUR) * one + max(0, seconds - 18 * HOUR) * two) for seconds, count, *_ in uses
    )
    with forgotten():
        tell(place(), rate("gpu", one), rate("gpu", two, "2026-03-11"), *said)
        for by in ("account", "user,day", "account,user,hour", "resource_class,month", "project,week"):
            report = ask("costs", "2026-03-01", "2026-03-14", by)
            total = Decimal(report.total["amount"]["amount"])
            assert sum(Decimal(row["amount"]["amount"]) for row in report.rows) == total
            assert abs(total * 100 * HOUR * 10_000 - exact) <= HOUR * 10_000 // 2


def test_money_needs_the_right_to_see_it() -> None:
    tell(place(), rate("gpu", EURO), hours("1", 1, **gpus(1)))
    with pytest.raises(Forbidden):
        ask("costs", *MARCH, scope=Scope(money=False))


def test_a_caller_sees_the_costs_and_gaps_of_its_projects_only() -> None:
    tell(place(), rate("gpu", EURO), project("p"), project("q"), mapped("a", "p"), mapped("b", "q"),
         hours("1", 1, account="a", **gpus(1)), hours("2", 2, account="b", **gpus(1)),
         hours("3", 3, account="b", **gpus(1, "h100")))  # fmt: skip
    report = ask("costs", *MARCH, scope=Scope.only({"p"}))
    assert (amounts(report, "project"), list(report.gaps)) == ({"p": "1.00"}, [])
    report = ask("costs", *MARCH, scope=Scope.only({"q"}))
    assert (amounts(report, "project"), report.gaps[0]["gpu_seconds"]) == ({"q": "2.00"}, 3 * HOUR)
