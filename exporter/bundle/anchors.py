"""Which panel shows the reason of an alert: the ids of panels never change, so that links to them hold."""

from __future__ import annotations

PANELS: dict[str, int] = {
    # tde-exporter
    "TDEExporterDown": 10,
    "TDEExporterAbsent": 10,
    "TDEWatchdog": 10,
    "TDEProbeProcessDown": 11,
    "TDECollectorFailing": 21,
    "TDEScratchLockElsewhere": 26,
    "TDEShardMissing": 27,
    "TDEHistoryErrors": 33,
    "TDEExporterConfigReloadFailed": 46,
    "TDESeriesRefused": 41,
    "TDEWebCertificateExpiring": 49,
    # tde-fleet
    "TDETargetMissing": 20,
    # tde-target
    "TDETargetDown": 81,
    "TDETargetLoginRefused": 55,
    "TDEHostCPUSaturated": 42,
    "TDEEncryptedSideFailing": 80,
    "TDECanaryStale": 53,
    "TDECanaryFailing": 56,
    "TDECanaryBlind": 22,
    "TDEPairInvalid": 80,
    "TDEOverheadHighP99": 20,
    "TDEOverheadHighP50": 20,
    "TDEOverheadCritical": 20,
    "TDEOverheadUndecidable": 22,
    "TDEEncryptedReadsSlower": 25,
    "TDEKeystoreNotOpen": 66,
    "TDEKeystoreDegraded": 66,
    "TDEKeystoreStateUnknown": 66,
    "TDEKeysMissing": 61,
    "TDEMasterKeyTooOld": 62,
    "TDEMasterKeyRotationDue": 62,
    "TDEMasterKeyNotBackedUp": 63,
    "TDEStandbyLagHigh": 71,
    "TDEStandbyLagCritical": 71,
    "TDEStandbyLagUnknown": 73,
    "TDEStandbyApplyStopped": 73,
    "TDEStandbyTransportStopped": 73,
    "TDEStandbyKeyMismatch": 73,
    "TDEStandbyGap": 72,
    # tde-enablement
    "TDEOverheadBaselineRegression": 20,
    "TDEEncryptionCoverageLost": 42,
    "TDEObjectsPending": 42,
    "TDEConversionStalled": 42,
    "TDEObjectsPlain": 42,
    "TDEUnprotectedDependents": 42,
}
"""Alert to the id of a panel, on the dashboard that its link opens; as in `/d/tde-target?…&viewPanel=20`."""
