"""Writes a conformance report as JUnit XML, which every CI service can show."""

from __future__ import annotations

from xml.etree import ElementTree

from plughost.conformance.runner import ConformanceReport

_NOT_XML = dict.fromkeys([*range(9), 11, 12, *range(14, 32), 0xFFFE, 0xFFFF, *range(0xD800, 0xE000)], "?")


def junit(report: ConformanceReport) -> bytes:
    """The report as a JUnit XML document."""
    suite = ElementTree.Element(
        "testsuite",
        name=f"plughost conform {report.plugin}".translate(_NOT_XML),
        tests=str(len(report.verdicts)),
        failures=str(report.count("failed")),
        skipped=str(report.count("skipped")),
        time=f"{sum(verdict.seconds for verdict in report.verdicts):.3f}",
    )
    for verdict in report.verdicts:
        case = ElementTree.SubElement(
            suite, "testcase", classname=report.contract, name=verdict.axis, time=f"{verdict.seconds:.3f}"
        )
        if verdict.outcome == "failed":
            failure = ElementTree.SubElement(case, "failure", message=verdict.reason.translate(_NOT_XML))
            failure.text = "\n".join(verdict.frames).translate(_NOT_XML)
        elif verdict.outcome == "warned":
            ElementTree.SubElement(case, "system-out").text = verdict.reason.translate(_NOT_XML)
        elif verdict.outcome == "skipped":
            ElementTree.SubElement(case, "skipped", message=verdict.reason.translate(_NOT_XML))
    written: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return written
