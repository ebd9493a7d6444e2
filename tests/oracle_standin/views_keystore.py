"""Views of keystores, master keys and encrypted tablespaces."""

from __future__ import annotations

from collections.abc import Iterator

from tests.oracle_standin.model import ROOT, Database, Row, Seat
from tests.oracle_standin.views import Views

VIEWS = Views()

_SIDES = ("CREATOR", "ACTIVATING")
_ORIGIN = (
    "{0}_DBNAME V128, {0}_DBID N, {0}_INSTANCE_NAME V128, {0}_INSTANCE_NUMBER N, {0}_INSTANCE_SERIAL N,"
    "{0}_PDBNAME V128, {0}_PDBID N, {0}_PDBUID N, {0}_PDBGUID R16"
)


@VIEWS.define(
    "V$ENCRYPTION_WALLET",
    "WRL_TYPE V20, WRL_PARAMETER V4000, STATUS V30, WALLET_TYPE V20, WALLET_ORDER V9, KEYSTORE_MODE V8 @18,"
    "FULLY_BACKED_UP V9, CON_ID N",
)
def _wallets(database: Database, _seat: Seat) -> Iterator[Row]:
    for each in database.keystores:
        unknown = database.mounted and each.kind != "FILE" and each.is_open
        yield {
            "INST_ID": database.instance_number,
            "WRL_TYPE": each.kind,
            "WRL_PARAMETER": None if each.mode == "UNITED" else each.location,
            "STATUS": "OPEN_UNKNOWN_MASTER_KEY_STATUS" if unknown else each.status,
            "WALLET_TYPE": each.wallet_type,
            "WALLET_ORDER": each.order,
            "KEYSTORE_MODE": each.mode,
            "FULLY_BACKED_UP": each.backed_up,
            "CON_ID": each.con_id if database.cdb else 0,
        }


VIEWS.alias("GV$ENCRYPTION_WALLET", "V$ENCRYPTION_WALLET", "INST_ID N")


@VIEWS.define(
    "V$ENCRYPTION_KEYS",
    "KEY_ID V78, HEX_MKID V78 @23, TAG V4000, CREATION_TIME TZ, ACTIVATION_TIME TZ, CREATOR V128, CREATOR_ID N,"
    "USER V128, USER_ID N, KEY_USE V10, KEYSTORE_TYPE V17, ORIGIN V41, BACKED_UP V9, CON_ID N,"
    + ",".join(_ORIGIN.format(side) for side in _SIDES),
)
def _keys(database: Database, _seat: Seat) -> Iterator[Row]:
    for each in database.keys:
        if each.missing:
            continue
        name = database.container(each.con_id).name
        row: Row = {
            "KEY_ID": each.name,
            "HEX_MKID": each.key_id.hex().upper(),
            "TAG": each.tag,
            "CREATION_TIME": each.created,
            "ACTIVATION_TIME": each.activated,
            "CREATOR": each.creator,
            "CREATOR_ID": 0,
            "USER": each.creator if each.activated else None,
            "USER_ID": 0,
            "KEY_USE": "TDE IN PDB",
            "KEYSTORE_TYPE": each.keystore_type,
            "ORIGIN": each.origin,
            "BACKED_UP": each.backed_up,
            "CON_ID": each.con_id if database.cdb else 0,
        }
        for side in _SIDES:
            row |= {f"{side}_DBNAME": database.name, f"{side}_DBID": database.dbid, f"{side}_PDBNAME": name}
            row |= {f"{side}_INSTANCE_NAME": database.instance, f"{side}_INSTANCE_NUMBER": database.instance_number}
            row |= {f"{side}_PDBID": each.con_id}
        yield row


@VIEWS.define(
    "V$ENCRYPTED_TABLESPACES",
    "TS# N, ENCRYPTIONALG V7, ENCRYPTEDTS V3, ENCRYPTEDKEY R32, MASTERKEYID R16, BLOCKS_ENCRYPTED N,"
    "BLOCKS_DECRYPTED N, KEY_VERSION N, STATUS V10, CON_ID N",
)
def _encrypted_tablespaces(database: Database, _seat: Seat) -> Iterator[Row]:
    for each in database.tablespaces:
        if each.algorithm is not None:
            yield {
                "TS#": each.number,
                "ENCRYPTIONALG": each.algorithm,
                "ENCRYPTEDTS": "YES" if each.encrypted else "NO",
                "ENCRYPTEDKEY": bytes(32),
                "MASTERKEYID": each.master_key,
                "BLOCKS_ENCRYPTED": each.blocks_encrypted,
                "BLOCKS_DECRYPTED": each.blocks_decrypted,
                "KEY_VERSION": each.key_version,
                "STATUS": "UNKNOWN" if database.mounted else each.status,
                "CON_ID": each.con_id if database.cdb else 0,
            }


@VIEWS.define("V$TABLESPACE", "TS# N, NAME V30, ENCRYPT_IN_BACKUP V3, BIGFILE V3, CON_ID N")
def _tablespaces(database: Database, _seat: Seat) -> Iterator[Row]:
    for each in database.tablespaces:
        yield {
            "TS#": each.number,
            "NAME": each.name,
            "ENCRYPT_IN_BACKUP": None,
            "BIGFILE": "NO",
            "CON_ID": each.con_id if database.cdb else 0,
        }


@VIEWS.define(
    "V$DATABASE_KEY_INFO",
    "ENCRYPTIONALG V7, ENCRYPTEDKEY R48, MASTERKEYID R16, MASTERKEY_ACTIVATED V3 @21, CON_ID N",
)
def _key_info(database: Database, _seat: Seat) -> Iterator[Row]:
    for container in database.containers:
        own = [each for each in database.keys if each.con_id == container.con_id and each.activated]
        newest = max(own, key=lambda each: each.activated or each.created, default=None)
        if container.con_id == ROOT or newest:
            yield {
                "ENCRYPTIONALG": "AES256",
                "ENCRYPTEDKEY": bytes(48),
                "MASTERKEYID": newest.key_id if newest else bytes(16),
                "MASTERKEY_ACTIVATED": "YES" if newest else "NO",
                "CON_ID": container.con_id if database.cdb else 0,
            }
