"""Keystores, master keys, inventory, conversions and what lies in the clear, on a stand-in of each release."""

from __future__ import annotations

import datetime

import pytest

from exporter.domain.clock import FakeClock
from exporter.domain.errors import ConnectFailed
from exporter.domain.states import KeystoreState
from exporter.engines.oracle.inventory import EncryptionReader
from exporter.engines.pace import STANDSTILL_SECONDS
from tests.engines.oracle.standin_targets import VERSIONS, opened, target_of
from tests.oracle_standin.faults import Cut, Hang
from tests.oracle_standin.keys import Keystore, MasterKey
from tests.oracle_standin.model import PDB, SEED, Container, User
from tests.oracle_standin.statements_twins import engine_database
from tests.oracle_standin.storage import DependentObject, EncryptedColumn, Table, Tablespace

ACTIVATED = datetime.datetime(2026, 1, 15, 6, 30, tzinfo=datetime.UTC).timestamp()


class Clock(FakeClock):
    """A clock that tests move; an inventory seems to cost `each` seconds."""

    def __init__(self, each=0.0):
        super().__init__()
        self.each = each

    def monotonic(self):
        self.advance(self.each)
        return super().monotonic()

    def paced(self):
        self.advance(self.each)
        return super().paced()


@pytest.fixture
def database():
    return engine_database("19")


@pytest.fixture
def server(make_server, database):
    return make_server(database=database)


@pytest.fixture
def look(server, tmp_path):
    """Reads the state once, in a session of its own."""

    def read(reader=None, **target):
        with opened(target_of(server, tmp_path, **target)) as session:
            if reader is None:
                return session.encryption_state(5.0)
            return reader.read(session._control, 5.0)

    return read


def of_root(**more):
    return {"service": "orcl", "pairs": (), **more}


def by_name(state):
    return {keystore.name: keystore for keystore in state.keystores}


# -- keystores -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_every_release(make_server, tmp_path, version):
    server = make_server(version)
    with opened(target_of(server, tmp_path)) as session:
        state = session.encryption_state(5.0)
    (keystore,) = state.keystores
    assert (keystore.name, keystore.state, keystore.kind, keystore.raw) == (
        "PDB1/file",
        KeystoreState.OPEN,
        "auto_login",
        "OPEN",
    )
    assert keystore.mode == ("" if version == "12.2" else "united")
    assert (keystore.key_activated, keystore.backed_up) == (ACTIVATED, True)
    assert (keystore.keys_in_use, keystore.keys_missing) == (1, 0)
    assert state.problems == ()
    algorithm = server.database.profile.algorithm
    assert state.algorithms == ((algorithm, 1),)
    assert set(state.objects) == {("tablespace", "plain", 2), ("tablespace", "encrypted", 1)}
    assert state.conversion_stalled is False


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("OPEN", KeystoreState.OPEN),
        ("OPEN_NO_MASTER_KEY", KeystoreState.NO_KEY),
        ("CLOSED", KeystoreState.CLOSED),
        ("NOT_AVAILABLE", KeystoreState.MISSING),
        ("OPEN_UNKNOWN_MASTER_KEY_STATUS", KeystoreState.UNKNOWN),
        ("UNDEFINED", KeystoreState.UNKNOWN),
        ("OF A LATER RELEASE", KeystoreState.UNKNOWN),
    ],
)
def test_each_word_has_its_state(look, database, status, state):
    database.keystores[2].status = status
    (keystore,) = look().keystores
    assert (keystore.state, keystore.raw) == (state, status)


@pytest.mark.parametrize(("status", "shown"), [("NOT_AVAILABLE", []), ("OPEN_NO_MASTER_KEY", [KeystoreState.OPEN])])
def test_a_database_that_encrypts_nothing_needs_no_key(look, database, status, shown):
    database.keystores[2].status = status
    database.keys.clear()
    database.tablespaces = [each for each in database.tablespaces if each.algorithm is None]
    state = look()
    assert [keystore.state for keystore in state.keystores] == shown
    assert all(keystore.keys_in_use == 0 for keystore in state.keystores)


def test_an_encrypted_column_needs_a_key_as_well(look, database):
    database.keystores[2].status = "NOT_AVAILABLE"
    database.tablespaces = [each for each in database.tablespaces if each.algorithm is None]
    database.encrypted_columns.append(EncryptedColumn("TDE", "PEOPLE", "CARD"))
    (keystore,) = look().keystores
    assert keystore.state is KeystoreState.MISSING
    assert keystore.keys_in_use is None


@pytest.mark.parametrize(
    ("wallet_type", "kind"),
    [
        ("PASSWORD", "password"),
        ("LOCAL_AUTOLOGIN", "local_auto_login"),
        ("UNKNOWN", "file"),
        ("SOFTWARE_KEYSTORE", "file"),
        ("SOMETHING NEW", "file"),
    ],
)
def test_any_type_of_wallet_is_taken(look, database, wallet_type, kind):
    database.keystores[2].wallet_type = wallet_type
    (keystore,) = look().keystores
    assert (keystore.kind, keystore.state) == (kind, KeystoreState.OPEN)


def test_two_keystores_after_a_migration_of_keys(look, database):
    database.keystores[2].order = "SECONDARY"
    database.keystores.append(
        Keystore(PDB, kind="OKV", wallet_type="OKV", order="PRIMARY", mode="UNITED", backed_up="UNDEFINED")
    )
    later = datetime.datetime(2026, 5, 1, tzinfo=datetime.UTC)
    database.keys.append(MasterKey(PDB, number=3, activated=later, keystore_type="OKV", backed_up="UNDEFINED"))
    database.tablespaces[1].master_key = database.keys[-1].key_id
    found = by_name(look())
    assert set(found) == {"PDB1/file", "PDB1/okv"}
    file, external = found["PDB1/file"], found["PDB1/okv"]
    assert (file.mode, file.kind, file.key_activated, file.backed_up) == (
        "united secondary",
        "auto_login",
        ACTIVATED,
        True,
    )
    assert (external.mode, external.kind) == ("united primary", "okv")
    assert (external.key_activated, external.backed_up) == (later.timestamp(), None)
    assert (file.keys_in_use, external.keys_in_use, external.keys_missing) == (None, 1, 0)


def test_the_key_that_is_used_is_the_one_activated_last(look, database):
    newer = datetime.datetime(2026, 7, 1, 12, tzinfo=datetime.timezone(datetime.timedelta(hours=-5)))
    database.keys += [
        MasterKey(PDB, number=5, activated=newer, backed_up="NO"),
        MasterKey(PDB, number=6, activated=None),
    ]
    (keystore,) = look().keystores
    assert keystore.key_activated == newer.timestamp()
    assert keystore.backed_up is False


def test_a_key_that_is_missing_degrades_an_open_keystore(look, database):
    lost = MasterKey(PDB, number=9, missing=True)
    database.keys.append(lost)
    database.tablespaces.append(Tablespace("OLD", 8, PDB, algorithm="AES256", master_key=lost.key_id))
    (keystore,) = look().keystores
    assert (keystore.state, keystore.keys_in_use, keystore.keys_missing) == (KeystoreState.DEGRADED, 2, 1)


def test_keys_that_are_named_otherwise_than_we_know_are_unknown_and_not_missing(look, database):
    database.overrides["V$ENCRYPTION_KEYS"] = [
        {"CON_ID": PDB, "KEY_ID": "a name of a later release", "ACTIVATION_TIME": None, "KEYSTORE_TYPE": "X"}
    ]
    (keystore,) = look().keystores
    assert (keystore.state, keystore.keys_in_use, keystore.keys_missing) == (KeystoreState.OPEN, 1, None)
    assert (keystore.key_activated, keystore.backed_up) == (None, True)


def test_a_name_of_a_key_in_base64_is_read(look, database):
    # 01 and the id, as V$ENCRYPTION_KEYS of a keystore file has it; for the id of the encrypted tablespace.
    import base64

    name = base64.b64encode(b"\x01" + database.keys[1].key_id + bytes(22)).decode().rstrip("=")
    database.overrides["V$ENCRYPTION_KEYS"] = [{"CON_ID": PDB, "KEY_ID": name, "BACKED_UP": "YES"}]
    (keystore,) = look().keystores
    assert (keystore.keys_in_use, keystore.keys_missing) == (1, 0)


def test_all_containers_are_seen_from_the_root_but_the_seed(look, database):
    database.containers.append(Container(4, "SHUT", "MOUNTED"))
    database.keystores.append(Keystore(4, status="CLOSED", mode="ISOLATED"))
    database.users["C##MON"] = User("secret")
    state = look(**of_root(user="c##mon"))
    found = by_name(state)
    assert set(found) == {"CDB$ROOT/file", "PDB1/file", "SHUT/file"}
    assert SEED not in {keystore.name for keystore in state.keystores}
    assert (found["SHUT/file"].state, found["SHUT/file"].mode) == (KeystoreState.CLOSED, "isolated")
    assert ("tablespace", "encrypted", 1) in state.objects
    assert [problem for problem in state.problems if "SHUT" in problem]
    assert state.unprotected == ()


def test_an_account_that_is_kept_from_other_containers_is_told_so(look, database):
    database.users["C##MON"] = User("secret", container_data_all=False)
    state = look(**of_root(user="c##mon"))
    assert set(by_name(state)) <= {"CDB$ROOT/file"}
    assert any("CONTAINER_DATA=ALL" in problem for problem in state.problems)


def test_a_container_whose_keystore_is_not_shown_is_named(look, database):
    database.keystores.pop()
    database.users["C##MON"] = User("secret")
    state = look(**of_root(user="c##mon"))
    assert any("the keystores of PDB1" in problem for problem in state.problems)


def test_a_database_without_containers(look, database):
    database.cdb = False
    database.services["pdb1"] = PDB
    state = look()
    assert set(by_name(state)) >= {"database/file"}
    assert ("tablespace", "encrypted", 1) in state.objects


# -- inventory -----------------------------------------------------------------------------------------


def test_what_there_is_is_counted_by_kind_and_state(look, database):
    database.tablespaces += [
        Tablespace("UNDOTBS1", 2, PDB, contents="UNDO", size=100),
        Tablespace("TEMP", 3, PDB, contents="TEMPORARY"),
        Tablespace("WAS_ENCRYPTED", 9, PDB, algorithm="AES256", encrypted=False, size=1000),
        Tablespace("MOVING", 10, PDB, algorithm="AES192", status="ENCRYPTING", size=1000),
    ]
    database.encrypted_columns += [
        EncryptedColumn("TDE", "PEOPLE", "CARD"),
        EncryptedColumn("TDE", "PEOPLE", "NAME", algorithm="3 Key Triple DES 168 bits key", salt="NO"),
    ]
    state = look()
    assert set(state.objects) == {
        ("tablespace", "plain", 3),
        ("tablespace", "encrypted", 1),
        ("tablespace", "in_progress", 1),
        ("undo", "plain", 1),
        ("temp", "plain", 1),
        ("column", "encrypted", 2),
    }
    assert dict(state.algorithms) == {"AES128": 1, "AES192": 1, "AES192 salt": 1, "3DES168 no salt": 1}
    assert ("undo", "plain", 100 * 8192) in state.object_bytes
    assert [name for name, _ in state.conversions] == ["MOVING"]


def test_dependents_in_plain_tablespaces_are_counted(look, database):
    database.tables += [Table("APP", "SECRET", "CANARY_ENCRYPTED"), Table("APP", "OPEN", "CANARY_PLAIN")]
    for kind, name, table, space in (
        ("index", "I1", "SECRET", "CANARY_PLAIN"),
        ("index", "I2", "SECRET", "CANARY_ENCRYPTED"),
        ("index", "I3", "OPEN", "CANARY_PLAIN"),
        ("index", "I4", "SECRET", None),
        ("lob", "L1", "SECRET", "CANARY_PLAIN"),
        ("mview", "M1", "SECRET", "CANARY_PLAIN"),
        ("mview", "M2", "SECRET", "CANARY_PLAIN"),
    ):
        database.dependents.append(DependentObject(kind, "APP", name, "APP", table, space))
    assert dict(look().unprotected) == {"index": 1, "lob": 1, "materialized_view": 2}


def test_a_missing_grant_makes_its_part_unknown_and_is_named(look, database):
    granted = {"V_$DATABASE", "V_$ENCRYPTION_WALLET", "V_$ENCRYPTED_TABLESPACES", "V_$TABLESPACE", "V_$CONTAINERS"}
    database.users["FEW"] = User("secret", grants=granted)
    state = look(user="few")
    # Without the dictionary, what is not listed as encrypted in an open database is plain.
    assert set(state.objects) == {("tablespace", "plain", 2), ("tablespace", "encrypted", 1)}
    (keystore,) = state.keystores
    assert (keystore.state, keystore.key_activated, keystore.keys_missing) == (KeystoreState.OPEN, None, None)
    assert state.unprotected == ()
    text = "\n".join(state.problems)
    assert all(f"READ ON SYS.{name}" in text for name in ("V_$ENCRYPTION_KEYS", "DBA_TABLESPACES", "DBA_LOBS"))
    assert not any(f"READ ON SYS.{name}," in text for name in ("V_$ENCRYPTION_WALLET", "V_$CONTAINERS"))


def test_no_grant_at_all_is_no_error(look, database):
    database.users["NOBODY"] = User("secret", grants=set())
    state = look(user="nobody")
    assert (state.keystores, state.objects, state.unprotected, state.conversion_stalled) == ((), (), (), None)
    assert len(state.problems) >= 5


def test_what_is_mounted_tells_what_fixed_views_tell(look, database):
    database.become("PHYSICAL STANDBY", "MOUNTED")
    database.keystores[0].kind = "HSM"
    state = look(**of_root(user="sys", privilege="sysdg"))
    assert ("tablespace", "encrypted", 1) in state.objects
    assert ("tablespace", "unknown", 2) in state.objects
    assert not [part for part in state.objects if part[1] == "plain"]
    found = by_name(state)
    assert found["CDB$ROOT/hsm"].state is KeystoreState.UNKNOWN
    assert found["PDB1/file"].keys_missing is None
    assert not any("ORA-01219" in problem for problem in state.problems)


def test_an_expensive_inventory_is_kept_for_a_while(look, database):
    clock = Clock(each=1.0)
    reader = EncryptionReader(clock)
    first = look(reader)
    database.tablespaces.append(Tablespace("NEW", 11, PDB))
    assert look(reader).objects == first.objects
    clock.advance(4000.0)
    assert ("tablespace", "plain", 3) in look(reader).objects


def test_another_role_makes_it_look_anew(look, database):
    clock = Clock(each=1.0)
    reader = EncryptionReader(clock)
    look(reader)
    database.tablespaces.append(Tablespace("NEW", 11, PDB))
    database.become("PHYSICAL STANDBY", "READ ONLY")
    assert ("tablespace", "plain", 3) in look(reader).objects


def test_a_lost_session_is_raised_and_nothing_is_given_up_for_it(look, server):
    reader = EncryptionReader()
    look(reader)
    server.faults.on("DBA_TABLESPACES", Cut(), times=1)
    with pytest.raises(ConnectFailed):
        look(reader)
    assert look(reader).objects


def test_a_view_that_hangs_costs_its_own_part(look, server):
    reader = EncryptionReader()
    look(reader)
    server.faults.on("DBA_LOBS", Hang())
    state = look(EncryptionReader())
    assert dict(state.unprotected) == {"index": 0, "materialized_view": 0}
    assert any("(lob)" in problem and "in time" in problem for problem in state.problems)
    assert state.keystores
    assert state.objects


# -- conversions ---------------------------------------------------------------------------------------


def test_a_conversion_shows_its_share_since_it_began(look, database):
    reader, space = EncryptionReader(), database.tablespaces[1]
    space.blocks_encrypted = 500  # written before
    assert look(reader).conversions == ()
    space.status, space.blocks_encrypted = "REKEYING", 500 + space.size // 4
    state = look(reader)
    assert state.conversions == (("CANARY_ENCRYPTED", 0.25),)
    assert state.conversion_stalled is False
    space.status = "NORMAL"
    assert look(reader).conversions == ()


def test_one_that_ran_when_it_was_first_seen_tells_what_is_sure(look, database):
    space = database.tablespaces[1]
    space.status, space.blocks_encrypted = "ENCRYPTING", space.size // 2
    assert look(EncryptionReader()).conversions == (("CANARY_ENCRYPTED", 0.5),)
    space.status = "REKEYING"
    assert look(EncryptionReader()).conversions == (("CANARY_ENCRYPTED", 0.0),)


def test_a_restart_of_the_instance_takes_nothing_below_zero(look, database):
    reader, space = EncryptionReader(), database.tablespaces[1]
    space.blocks_encrypted = 10_000
    look(reader)
    space.status, space.blocks_encrypted = "ENCRYPTING", space.size // 8
    assert look(reader).conversions == (("CANARY_ENCRYPTED", 0.125),)


def test_a_conversion_that_does_not_move_for_an_hour_stands_still(look, database):
    clock = Clock()
    reader, space = EncryptionReader(clock), database.tablespaces[1]
    space.status = "ENCRYPTING"
    assert look(reader).conversion_stalled is False
    clock.advance(STANDSTILL_SECONDS)
    # A little is always written, by others.
    space.blocks_encrypted += 3
    assert look(reader).conversion_stalled is True
    space.blocks_encrypted += space.size // 100
    assert look(reader).conversion_stalled is False


def test_conversions_are_named_with_their_container_in_the_root(look, database):
    database.users["C##MON"] = User("secret")
    database.tablespaces[1].status = "ENCRYPTING"
    assert look(**of_root(user="c##mon")).conversions == (("PDB1.CANARY_ENCRYPTED", 0.0),)
