"""What a service.yaml says of billing: who invoices, and which files are written on a clock."""

from control.apply.fields import Fields, Findings
from control.metering.exports import wanted as exports
from control.metering.exports.wanted import ScheduleWanted
from control.metering.invoices import wanted as invoices
from control.metering.invoices.wanted import TermsWanted

TERMS = "terms"  # there is one


def billing(fields: Fields, findings: Findings) -> TermsWanted:
    wanted = TermsWanted(
        issuer=fields.required("issuer"),
        **{name: fields.text(name, "") for name in ("provider", "host")},
        **{name: fields.text(name, "") for name in ("region_id", "region_name")},
        close_after_hours=fields.whole("close_after_hours"),
    )
    fields.end()
    findings.add_all(fields.path, invoices.problems(wanted))
    return wanted


def export(fields: Fields, findings: Findings) -> ScheduleWanted:
    wanted = ScheduleWanted(
        name=fields.required("name"),
        what=fields.required("what"),
        destination=fields.required("destination"),
        format=fields.text("format", ScheduleWanted.format),
        version=fields.number("version", ScheduleWanted.version),
        tenant=fields.text("tenant", ScheduleWanted.tenant),
        every=fields.text("every", ScheduleWanted.every),
    )
    fields.end()
    findings.add_all(fields.path, exports.problems(wanted))
    return wanted
