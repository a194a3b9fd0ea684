"""Small ways to break the host, each one line of one file. The tests named must notice every one."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    name: str
    file: str
    """Below src/plughost, or a path from the project's root."""
    old: str
    """Stands in the file exactly once."""
    new: str
    tests: str
    """What pytest is given, word by word."""


WIRE = "tests/wire"
AINB = "tests/contracts/test_ainb_wire.py tests/contracts/test_ainb_services.py tests/contracts/test_ainb_lifecycle.py"
KAGED = "tests/contracts/test_kaged_lifecycle.py"
KAGED_AXES = "tests/conformance/test_kaged.py tests/conformance/test_kaged_defects.py"
RUNE = "tests/contracts/test_rune.py"
MCPTEST = "tests/contracts/test_mcptest.py"
FAULTS = "tests/faults"

VAI = "tests/vai/test_calls.py"
VAI_TALK = "tests/vai/test_session.py"
VAI_MANIFEST = "tests/vai/test_manifest.py"

MUTANTS = [
    # Frames
    Mutant("a-line-may-be-any-length", "wire/framing.py", "if len(self._held) <= self._limit + 1:", "if True:", WIRE),
    Mutant("the-rest-of-a-long-line-is-a-line", "wire/framing.py", "        self._held = None\n        self._skipping = True\n", "        self._held = None\n", WIRE),
    Mutant("a-long-line-in-one-read-passes", "wire/framing.py", "if len(data) > self._limit:\n", "if False:\n", WIRE),
    Mutant("a-newline-in-a-message-cuts-it", "wire/framing.py", 'body = body.replace(b"\\n", b" ")', "pass", f"{WIRE} {MCPTEST}"),
    Mutant("a-last-line-without-end-is-lost", "wire/framing.py", 'return [] if self._held is None else self._complete(b"")', "return []", f"{WIRE} {RUNE}"),
    Mutant("a-body-may-be-any-size", "wire/framing.py", "if length > self._body_limit:\n            raise", "if False:\n            raise", WIRE),
    Mutant("a-small-body-over-the-limit-passes", "wire/framing.py", "body + length > len(data) or length > self._body_limit", "body + length > len(data)", WIRE),
    Mutant("a-header-may-end-with-lf", "wire/framing.py", 'if not line.endswith(b"\\r\\n"):', 'if not line.endswith(b"\\n"):', WIRE),
    Mutant("another-header-is-taken", "wire/framing.py", 'if name.strip().lower() != b"content-length":', "if False:", WIRE),
    Mutant("headers-without-end", "wire/framing.py", "if self._held > self._header_limit:", "if False:", WIRE),
    Mutant("half-a-frame-is-no-error", "wire/framing.py", "        self._broken = True\n        if not self._in_body:", "        return []\n        if not self._in_body:", WIRE),
    Mutant("content-length-off-by-one", "wire/framing.py", '% (len(body), body)', '% (len(body) + 1, body)', WIRE),
    # Who waits for what
    Mutant("an-unknown-id-counts-as-late", "wire/ledger.py", "return self._first <= number < self.following", "return True", f"{WIRE} {MCPTEST}"),
    Mutant("the-newest-call-is-blamed", "wire/ledger.py", "next(iter(self.values()), None)", "next(reversed(self.values()), None)", f"{WIRE} {MCPTEST}"),
    Mutant("deadlines-never-come", "wire/ledger.py", "if entry.deadline <= now]", "if False]", f"{WIRE} {MCPTEST}"),
    Mutant("ids-are-used-twice", "wire/ledger.py", "self.following = number + 1", "self.following = number + (number % 7 != 3)", f"{WIRE} {MCPTEST}"),
    Mutant("bad-utf8-is-text", "wire/envelope.py", "    except UnicodeDecodeError:\n        return False", "    except UnicodeDecodeError:\n        return True", f"{MCPTEST} {RUNE}"),
    Mutant("more-in-flight-than-allowed", "runtime/peer.py", "and len(self._ledger) < self._max_in_flight", "", MCPTEST),
    Mutant("a-late-answer-goes-to-the-next", "runtime/peer.py", "pending = self._ledger.pop(incoming.id, None)", "pending = self._ledger.pop(incoming.id, None) or self._ledger.pop(next(iter(self._ledger), None), None)", MCPTEST),
    Mutant("a-malformed-line-fails-nobody", "runtime/peer.py", "        oldest = self._ledger.oldest()\n", "        oldest = None\n", MCPTEST),
    Mutant("keys-wait-their-turn", "runtime/peer.py", "            channel.write(frame, urgent=urgent)\n        return True", "            channel.write(frame)\n        return True", "tests/contracts/test_ainb_wire.py tests/contracts/test_ainb_lifecycle.py"),
    Mutant("frames-wait-for-events", "contracts/ainb/view.py", "type=RenderResult, ahead=True", "type=RenderResult", "tests/contracts/test_ainb_wire.py"),
    Mutant("unread-notifications-pile-up", "runtime/peer.py", "if unheard + len(frame) > self._max_buffered:", "if False:", f"{AINB} tests/faults/test_services_under_fire.py"),
    Mutant("what-a-starting-plugin-is-told-is-lost", "runtime/peer.py", "held.add(self._ledger.following, frame, urgent)", "pass", AINB),
    Mutant("waiting-calls-do-not-move-over", "runtime/peer.py", "                self._wait(pending)\n            except", "                pass\n            except", "tests/host"),
    Mutant("output-after-the-answer-is-taken", "runtime/peer.py", "self._deaf = self._warn = True", "self._warn = True", RUNE),
    Mutant("a-withdrawn-call-stays", "runtime/peer.py", "            del self._ledger[number]\n            if self._policy", "            if self._policy", f"{MCPTEST} tests/faults/test_cancellation.py"),
    Mutant("answers-nobody-reads-are-made", "runtime/serving.py", "return self._channel.buffered >= HIGH_WATER", "return False", "tests/faults/test_services_under_fire.py tests/host/test_outside_contract.py"),
    Mutant("megabytes-of-requests-are-read", "runtime/serving.py", " or self._held >= MOST_HELD", "", "tests/faults/test_services_under_fire.py"),
    Mutant("requests-without-end-are-read", "runtime/serving.py", "or len(self._waiting) >= MOST_WAITING", "", "tests/faults/test_services_under_fire.py tests/host/test_outside_contract.py"),
    Mutant("any-number-is-served-at-a-time", "runtime/serving.py", "if len(self._tasks) < self._limit and not self._is_full():\n            self._start(request)", "if True:\n            self._start(request)", "tests/faults/test_services_under_fire.py tests/host/test_outside_contract.py"),
    # The life of a process
    Mutant("failures-are-not-counted", "runtime/supervisor.py", "self._failures = (*(at for at in self._failures if at > window), now)", "self._failures = (now,)", "tests/runtime/test_supervisor.py"),
    Mutant("old-failures-count-for-ever", "runtime/supervisor.py", "if at > window), now)", "), now)", "tests/runtime/test_supervisor.py"),
    Mutant("no-respawn-respawns", "runtime/supervisor.py", "if hopeless or not self._policy.respawn or len", "if hopeless or len", f"tests/runtime/test_supervisor.py {MCPTEST}"),
    Mutant("the-delay-does-not-grow", "runtime/supervisor.py", "backoff[min(self.failures, len(backoff)) - 1]", "backoff[0]", "tests/runtime/test_supervisor.py"),
    Mutant("a-stop-while-starting-is-ignored", "runtime/supervisor.py", "    (_S.SPAWNING, _E.STOP): Step(_S.SHUTTING_DOWN, _A.KILL),\n", "", "tests/runtime/test_supervisor.py tests/host tests/faults/test_awkward_moments.py"),
    Mutant("a-drained-one-is-not-ended", "runtime/supervisor.py", "(_S.DRAINING, _E.FINISHED): Step(_S.SHUTTING_DOWN, _A.CLOSE)", "(_S.DRAINING, _E.FINISHED): Step(_S.DRAINING, _A.NONE)", "tests/runtime/test_supervisor.py tests/host"),
    Mutant("forgets-to-kill", "runtime/instance.py", "        process.kill()\n\n        def insist", "\n        def insist", f"{MCPTEST} {RUNE}"),
    Mutant("a-deaf-launcher-is-waited-for", "runtime/instance.py", "            process.kill_launcher()\n            self._due.soon", "            self._due.soon", "tests/faults/test_awkward_moments.py tests/faults/test_deaths.py tests/host"),
    Mutant("a-crash-after-the-answer-is-fine", "runtime/instance.py", "(self._cause is None and status == 0)", "self._cause is None", RUNE),
    Mutant("calls-in-flight-hang-at-the-end", "runtime/instance.py", "        for pending in taken_along:\n            pending.fail(cause.again())", "", f"{MCPTEST} {AINB}"),
    Mutant("no-handshake-no-deadline", "runtime/instance.py", "if limit is not None:\n            self._due.after(limit, lambda: self._doom(Timeout", "if False:\n            self._due.after(limit, lambda: self._doom(Timeout", f"{RUNE} tests/contracts/test_ainb_lifecycle.py"),
    Mutant("an-idle-one-is-ended-while-pinned", "runtime/instance.py", "not (self._peer.busy or self._home.pinned())", "not self._peer.busy", "tests/contracts/test_ainb_lifecycle.py"),
    Mutant("an-idle-one-is-ended-while-busy", "runtime/instance.py", "not (self._peer.busy or self._home.pinned())", "not self._home.pinned()", "tests/contracts/test_ainb_lifecycle.py"),
    Mutant("stdin-stays-open-at-the-end", "runtime/instance.py", "            self._channel.close_write()", "            pass", MCPTEST),
    Mutant("the-hosts-variables-are-inherited", "runtime/process.py", "                launch.env,\n", "                {**os.environ, **launch.env},\n", f"{MCPTEST} {RUNE} tests/contracts/test_ainb_lifecycle.py"),
    Mutant("a-frame-is-cut-by-an-urgent-one", "runtime/channel.py", "batch: list[bytes | memoryview] = [self._begun] if self._begun else []", "batch: list[bytes | memoryview] = []", "tests/runtime/test_channel.py"),
    Mutant("the-last-bytes-are-not-read", "runtime/channel.py", "            if data:\n                self._on_data(data)\n            else:\n                self._end()\n        if self._read_fd >= 0:", "            self._end()\n        if self._read_fd >= 0:", f"{RUNE} tests/runtime/test_channel.py"),
    # The router
    Mutant("a-reload-drops-the-old-one-at-once", "plugin.py", "            replaced.drain(new)", "            replaced.stop()", "tests/host"),
    Mutant("a-failed-reload-takes-over", "plugin.py", "                self._adopt(*before)\n            raise", "                self._adopt(*before)", "tests/host"),
    Mutant("a-failed-reload-leaves-its-manifest", "plugin.py", "                self._adopt(*before)\n", "", "tests/contracts/test_kaged_reload.py"),
    Mutant("a-reload-keeps-the-command", "plugin.py", "if follows and binding.told_command is not None:", "if False:", "tests/contracts/test_kaged_reload.py"),
    Mutant("a-manifest-overrules-the-operator", "plugin.py", "spec.command_is_told and tuple(spec.command) == self._binding.told_command", "True", "tests/contracts/test_kaged_reload.py"),
    Mutant("an-eager-one-that-fails-is-added", "host.py", "                    await self.remove(spec.name)\n", "                    pass\n", "tests/host/test_adding.py"),
    Mutant("what-was-replaced-stays-open", "host.py", "            self._replaced.append((name, self._services[name]))", "            pass", "tests/host/test_providing.py"),
    Mutant("undeclared-methods-are-called", "plugin.py", "if self._methods is not None and method not in self._methods:", "if False:", "tests/contracts/test_kaged_wire.py tests/host"),
    Mutant("a-stopped-plugin-starts-again", "plugin.py", '        """The instance for the next call: its own, or the one that serves all."""\n        if self._stopped:', '        """The instance for the next call: its own, or the one that serves all."""\n        if False:', f"tests/host {MCPTEST}"),
    # What plugins may ask
    Mutant("no-capability-is-needed", "reception.py", "if reverse.capability is not None and not", "if False and not", "tests/contracts/test_ainb_wire.py tests/contracts/test_ainb_services.py"),
    Mutant("params-are-checked-first", "reception.py", "            raise Denied(f\"capability denied: {name}\") from None", "            pass", "tests/contracts/test_ainb_wire.py"),
    Mutant("denials-are-not-noted", "reception.py", "        denied(caller, f\"{method}: {error.message}\", hint)", "        pass", "tests/services/test_denials.py"),
    Mutant("a-grant-is-wider-than-the-manifest", "guard/__init__.py", "    if given.scope is None or wanted.scope == given.scope:\n        return wanted", "    if given.scope is None or wanted.scope == given.scope:\n        return given", "tests/test_guard.py"),
    Mutant("a-scope-is-not-narrowed", "guard/__init__.py", "shared = tuple(item for item in wanted.scope if item in given.scope)", "shared = wanted.scope", "tests/test_guard.py"),
    Mutant("a-publisher-hears-itself", "services/snapshots.py", "if subscriber.name != publisher:", "if True:", AINB),
    Mutant("versions-do-not-rise", "services/snapshots.py", "        self._version += 1\n", "        self._version = 1\n", AINB),
    Mutant("the-store-grows-without-end", "services/snapshots.py", "if publisher != HOST and (kept.topics", "if False and (kept.topics", "tests/faults/test_services_under_fire.py"),
    Mutant("a-dead-subscriber-stays", "services/snapshots.py", "            caller.on_end(lambda: self._leave(caller))", "            pass", f"{AINB} tests/faults/test_services_under_fire.py"),
    Mutant("subscribers-in-the-wrong-order", "services/snapshots.py", "        self._keep(topic, payload, publisher)\n        subscribers", "        subscribers", AINB),
    Mutant("an-action-has-no-deadline", "services/actions.py", "if params.timeout_ms else FOREVER", "if False else FOREVER", AINB),
    Mutant("a-plugin-invokes-itself", "services/actions.py", "        if name == caller.name:", "        if False:", AINB),
    Mutant("an-action-spawns-for-anybody", "services/actions.py", "if action.spawns and not guard.allows", "if False and not guard.allows", AINB),
    Mutant("any-log-level-is-kept", "services/logs.py", "if LEVELS.index(line.level) >= LEVELS.index(threshold):", "if True:", AINB),
    Mutant("an-unknown-level-is-logged", "services/logs.py", "        if line.level not in LEVELS:\n            raise InvalidSpec(f\"unknown log level {line.level!r}\")", "        if line.level not in LEVELS:\n            return self._keep(caller, line.level, line.message, None, \"log\")", AINB),
    Mutant("files-are-not-below-their-folder", "guard/beneath.py", "_BENEATH | _NO_MAGICLINKS)", "_NO_MAGICLINKS)", "tests/guard/test_beneath.py tests/services/test_files.py"),
    Mutant("dots-leave-the-folder-by-hand", "guard/beneath.py", "                if not held:\n                    raise Escapes(_leaves(path))", "                if not held:\n                    continue", "tests/guard/test_beneath.py"),
    Mutant("magic-links-are-followed", "guard/beneath.py", "_BENEATH | _NO_MAGICLINKS)", "_BENEATH)", "tests/guard/test_beneath.py tests/services/test_files.py"),
    Mutant("private-addresses-are-fetched", "services/network.py", "not all(map(is_public, found))", "not any(map(is_public, found))", "tests/services/test_network.py"),
    Mutant("any-host-is-fetched", "services/network.py", "if hosts is not None and not names(hosts, host):", "if False:", "tests/services/test_network.py"),
    Mutant("mapped-addresses-are-public", "guard/addresses.py", "inner = address.ipv4_mapped or address.sixtofour", "inner = address.sixtofour", "tests/guard/test_addresses.py"),
    Mutant("octal-addresses-are-names", "guard/addresses.py", 'if _NUMBER.fullmatch(host.rpartition(".")[2]):', "if False:", "tests/guard/test_addresses.py"),
    Mutant("passwords-in-urls", "guard/addresses.py", 'if "@" in match["authority"]:', "if False:", "tests/guard/test_addresses.py"),
    Mutant("secrets-follow-a-redirect", "services/network.py", "if target.origin != hop.target.origin:", "if False:", "tests/services/test_network.py"),
    Mutant("answers-of-any-size", "services/exchange.py", "if len(received) > max_body:", "if False:", "tests/services/test_network.py"),
    # Contracts
    Mutant("mcptest-takes-both", "contracts/mcptest/session.py", "        if answer.result is not NOTHING:\n            return InvalidResponse(\"the response has both", "        if False:\n            return InvalidResponse(\"the response has both", MCPTEST),
    Mutant("mcptest-takes-neither", "contracts/mcptest/session.py", "        if answer.result is NOTHING:\n            return", "        if False:\n            return", MCPTEST),
    Mutant("rune-takes-any-version", "contracts/rune/session.py", "if version != self._protocol:", "if False:", RUNE),
    Mutant("rune-takes-any-name", "contracts/rune/session.py", "if manifest.plugin_id != self._name:", "if False:", RUNE),
    Mutant("rune-runs-hidden-tools", "contracts/rune/session.py", "if self._tool not in (manifest.exposed_tools or ()):", "if False:", RUNE),
    Mutant("rune-takes-what-it-asks-for", "contracts/rune/session.py", "if ungranted([Capability(word)], self._granted):", "if False:", RUNE),
    Mutant("rune-takes-anybodys-answer", "contracts/rune/session.py", "if response.request_id != self._request_id:", "if False:", RUNE),
    Mutant("rune-ok-with-an-error", "contracts/rune/session.py", "if response.error is not None:", "if False:", RUNE),
    Mutant("ainb-takes-json-rpc-1", "contracts/jsonrpc.py", 'if message.jsonrpc != "2.0" or not', "if not", AINB),
    Mutant("ainb-takes-another-plugin", "contracts/ainb/session.py", "if told is not None and told != wanted:", "if False:", f"{AINB} tests/contracts/test_ainb_manifest.py"),
    Mutant("ainb-sends-null", "contracts/jsonrpc.py", "return {} if params is ABSENT or params is None else params", "return None if params is ABSENT or params is None else params", AINB),
    Mutant("ainb-answers-null", "contracts/jsonrpc.py", "{} if result is None else result", "result", AINB),
    Mutant("ainb-denials-look-like-bad-params", "contracts/jsonrpc.py", "    Denied: CAPABILITY_DENIED,\n", "    Denied: INVALID_PARAMS,\n", AINB),
    Mutant("ainb-another-abi-loads", "contracts/ainb/manifest.py", "and abi != ABI_VERSION:", "and False:", "tests/contracts/test_ainb_manifest.py"),
    Mutant("ainb-a-plugin-called-host", "contracts/ainb/manifest.py", "if name == RESERVED:", "if False:", "tests/contracts/test_ainb_manifest.py"),
    Mutant("ainb-silent-subscriptions-without-event-bus", "contracts/ainb/__init__.py", 'if "event_bus" in names else ()', "", AINB),
    Mutant("ainb-data-folder-for-all", "contracts/ainb/__init__.py", 'data if "write_plugin_data" in names else None', "data", AINB),
    Mutant("kaged-health-is-never-asked", "runtime/checkup.py", "        asked = self._session.probe()\n", "        asked = None\n", KAGED),
    Mutant("kaged-a-busy-plugin-is-sick", "runtime/checkup.py", "max([self._busy_until, *ahead.values()])", "self._busy_until", KAGED),
    Mutant("kaged-what-nobody-waits-for-keeps-nobody-busy", "runtime/checkup.py", "max([self._busy_until, *ahead.values()])", "max([self._since, *ahead.values()])", KAGED),
    Mutant("kaged-a-misfit-is-tried-again", "runtime/supervisor.py", "if hopeless or not", "if not", "tests/contracts/test_kaged_wire.py"),
    Mutant("a-flood-of-drops-is-told", "runtime/witness.py", "if self._drops.take() and not self._drops.overflowing:", "if True:", "tests/contracts/test_kaged_wire.py"),
    Mutant("kaged-a-hung-plugin-is-busy-for-ever", "runtime/checkup.py", "ahead[call] = min(ahead[call], self._clock.time())", "pass", KAGED),
    Mutant("kaged-no-other-question", "contracts/kaged/session.py", "            self._probe += 1\n", "            pass\n", KAGED),
    Mutant("kaged-notifications-without-end", "runtime/bucket.py", "if self._tokens < 1:", "if False:", "tests/contracts/test_kaged_wire.py"),
    Mutant("kaged-a-warning-for-each", "runtime/bucket.py", "        self._overflowed = True\n", "", "tests/contracts/test_kaged_wire.py"),
    Mutant("kaged-declared-is-granted", "contracts/kaged/__init__.py", "            capabilities=granted.capabilities,\n", "            capabilities=capabilities.together(told.capabilities).capabilities,\n", "tests/contracts/test_kaged_capabilities.py"),
    Mutant("kaged-undeclared-notifications-pass", "contracts/kaged/session.py", "and incoming.method not in self._notifications:", "and False:", "tests/contracts/test_kaged_wire.py"),
    Mutant("kaged-any-capability-is-used", "contracts/kaged/session.py", "            if not self._may(word):", "            if False:", "tests/contracts/test_kaged_wire.py"),
    Mutant("kaged-all-hosts-are-private", "contracts/kaged/capabilities.py", "private=each.port != 0 and _is_private(each.host)", "private=True", "tests/contracts/test_kaged_capabilities.py"),
    Mutant("yaml-keys-come-twice", "base/located_yaml.py", "            if key in found:", "            if False:", "tests/test_located_yaml.py tests/contracts/test_kaged_manifest.py"),
    Mutant("yaml-of-any-depth", "base/located_yaml.py", "if len(field) > DEEPEST:", "if False:", "tests/test_located_yaml.py"),
    # The rest
    Mutant("anybody-controls-a-host", "control.py", "if _peer(writer) in (os.geteuid(), 0):", "if True:", "tests/cli/test_control.py"),
    Mutant("specs-show-their-secrets", "contracts/contract.py", '        return f"PluginSpec(contract={self.contract!r}, name={self.name!r}, command={list(self.command)!r})"', '        return f"PluginSpec(contract={self.contract!r}, name={self.name!r}, env={self.env!r})"', "tests/host tests/contracts/test_mcptest.py tests/cli"),
    Mutant("nul-in-a-command", "contracts/contract.py", 'isinstance(word, str) and "\\0" not in word for word in words', "isinstance(word, str) for word in words", f"{MCPTEST} tests/host tests/faults/test_machine.py"),
    Mutant("limits-are-not-summed", "sandbox/trees.py", "            found += _children(pid)", "            pass", "tests/sandbox/test_memory_and_groups.py"),
    Mutant("sweeps-groups-of-live-hosts", "sandbox/cgroups.py", 'if match and not os.path.exists(f"{PROC}/{match[1]}"):', "if match:", "tests/sandbox/test_memory_and_groups.py"),
    Mutant("a-manifest-widens-a-grant", "guard/overlap.py", "        host = one.host\n    elif", "        host = other.host\n    elif", "tests/guard/test_powers.py"),
    Mutant("a-name-without-a-dot-matches", "guard/overlap.py", "host.removeprefix(\"*\").endswith(pattern[1:])", "host.removeprefix(\"*\").endswith(pattern[2:])", "tests/guard/test_powers.py"),
    Mutant("axes-pass-whatever-happens", "conformance/suite.py", "        await axis.test(subject)", "        pass", "tests/conformance"),
    # What is asked of kaged plugins
    Mutant("kaged-plugins-are-tried-unconfined", "conformance/kaged/powers.py", "sandbox=CLASS", 'sandbox="none"', KAGED_AXES),
    Mutant("kaged-denials-are-overlooked", "conformance/kaged/powers.py", 'strays = line.source == "denied" and', "strays = False and", KAGED_AXES),
    Mutant("kaged-storage-is-never-refused", "conformance/kaged/powers.py", "REVERSE[method].capability in capabilities:", "False:", KAGED_AXES),
    Mutant("kaged-plugins-may-flood", "conformance/kaged/limits.py", "told <= MOST_TOLD * (1 + took)", "True", KAGED_AXES),
    Mutant("kaged-initialized-may-be-answered", "conformance/kaged/talk.py", 'demand(not host.unasked(), "it answered the notification', 'demand(True, "it answered the notification', KAGED_AXES),
    # Storage
    Mutant("answered-without-a-commit", "services/sqlite_file.py", '        yield\n        connection.execute("COMMIT")', '        yield\n        connection.execute("ROLLBACK")', "tests/services/test_storage_kills.py tests/services/test_storage.py"),
    Mutant("commits-are-not-synced", "services/sqlite_file.py", '"PRAGMA synchronous = FULL"', '"PRAGMA synchronous = OFF"', "tests/services/test_storage_files.py"),
    Mutant("everybody-reads-the-storage", "services/sqlite_file.py", "0o600", "0o644", "tests/services/test_storage_files.py"),
    Mutant("a-quota-off-by-one", "services/database.py", "self._used - before + size > self._quota", "self._used - before + size > self._quota + 1", "tests/services/test_storage.py"),
    Mutant("deleted-bytes-still-count", "services/database.py", "        self._used -= before\n", "", "tests/services/test_storage.py tests/services/test_storage_model.py"),
    Mutant("one-without-room-fails-all", "services/database.py", "        # What one of them meets is not told of the others.\n", "                return [self._told(error) for _ in requests]\n", "tests/services/test_storage_room.py"),
    Mutant("a-commit-for-each", "services/storage.py", "shelf.take(MOST_TOGETHER)", "shelf.take(1)", "tests/services/test_storage_order.py"),
    Mutant("files-open-without-end", "services/storage.py", "if shelf in self._open or len(self._open) < MOST_OPEN:", "if True:", "tests/services/test_storage_order.py"),
    Mutant("a-storage-in-another-folder", "services/shelf.py", 'frozenset(b"abc', 'frozenset(b"/abc', "tests/services/test_storage_files.py"),
    Mutant("private-addresses-are-connected-to", "sandbox/egress.py", "if private and not endpoint.private:", "if False:", "tests/sandbox/test_egress.py"),
    Mutant("folders-of-live-hosts-are-swept", "sandbox/quarters.py", "                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)\n                remove", "                remove", "tests/sandbox/test_quarters.py"),
    Mutant("what-one-plugin-writes-another-is-given", "sandbox/keeper.py", "            self._keep_apart(spec.name, confinement)\n", "", "tests/sandbox/test_footing.py"),
    Mutant("the-meter-lets-it-be", "sandbox/meter.py", "        if over:\n", "        if False:\n", "tests/sandbox/test_memory_and_groups.py"),
    Mutant("a-folder-allows-itself", "config.py", "            allow=NONE,\n            limits=Limits(),\n", "", "tests/test_operator.py"),
    Mutant("anybodys-data-folder-is-taken", "sandbox/data_folder.py", "if not _is_own(about.st_uid) or about.st_mode & 0o077:", "if False:", "tests/sandbox/test_ainb_confined.py"),
    Mutant("files-that-others-may-write-are-public", "sandbox/trust.py", "    return info.st_uid == 0 and not info.st_mode & others", "    return info.st_uid == 0", "tests/sandbox/test_trust.py"),
    Mutant("confined-without-a-word", "runtime/launch.py", 'if launch.confine != "-" and b"confined" not in self._lines():', "if False:", "tests/sandbox/test_inner.py tests/sandbox/test_through_bubblewrap.py"),
    # Calls that say something, and calls that are told to stop
    Mutant("nobody-hears-events", "runtime/peer.py", "            self._said.append((pending, progress.payload))", "            pass", VAI),
    Mutant("late-events-go-unrecorded", "runtime/peer.py", "if progress.id not in self.stopping:", "if False:", VAI),
    Mutant("events-without-end", "runtime/peer.py", "        if excess is not None:", "        if False:", VAI),
    Mutant("a-deaf-caller-is-not-told", "runtime/peer.py", "                    pending.set_exception(error)", "                    pass", VAI),
    Mutant("a-cancel-is-not-told", "runtime/peer.py", "                self._tell_to_stop(number, reason)", "                pass", VAI),
    Mutant("a-passed-deadline-is-not-told", "runtime/peer.py", "            self._tell_to_stop(pending.number, DEADLINE_EXCEEDED)", "            pass", VAI),
    Mutant("a-stopping-process-takes-calls", "runtime/peer.py", "        self._max_in_flight = 0  #", "        #", VAI),
    Mutant("a-stopped-process-takes-none", "runtime/peer.py", "            self._max_in_flight = self._policy.max_in_flight\n            self._owner", "            self._owner", VAI),
    Mutant("a-stubborn-process-lives-on", "runtime/instance.py", "            self._due.at(until, self._end_unstoppable)", "            pass", VAI),
    Mutant("the-newest-cancel-counts", "runtime/peer.py", "return next(iter(self.stopping.values()))", "return next(reversed(self.stopping.values()))", VAI),
    Mutant("no-last-words", "runtime/instance.py", "        self._peer.part()\n", "", VAI),
    # vai
    Mutant("any-package-is-itself", "contracts/vai/session.py", "        if told != self._identity:", "        if False:", f"{VAI_TALK} {VAI}"),
    Mutant("any-protocol-is-ours", "contracts/vai/framed.py", "    if envelope.protocol != PROTOCOL:", "    if False:", f"{VAI_TALK} {VAI}"),
    Mutant("a-response-needs-no-body", "contracts/vai/session.py", 'if envelope.ok == _TRUE and framed.is_object(envelope.body):', 'if envelope.ok == _TRUE:', VAI_TALK),
    Mutant("paths-lead-upwards", "contracts/vai/rules.py", '".." in parts or ', "", VAI_MANIFEST),
    Mutant("a-tool-writes-chains", "contracts/vai/rules.py", "if scope == NOT_FOR_RESULTS and", "if False and", VAI_MANIFEST),
    Mutant("ids-come-twice", "contracts/vai/rules.py", "first.setdefault(name, number) != number:", "False:", VAI_MANIFEST),
    Mutant("assets-for-everybody", "contracts/vai/__init__.py", "if name != ASSETS or assets)", ")", "tests/vai/test_binding.py"),
    Mutant("symlinks-of-a-package-are-followed", "contracts/vai/__init__.py", " if not os.path.islink(folder / name))", ")", "tests/vai/test_binding.py"),
    Mutant("bodies-show-their-secrets", "contracts/vai/bodies.py", 'return f"{type(self).__name__}(export_id={self.export_id!r}, context={self.context!r})"', "return repr(msgspec.structs.asdict(self))", "tests/vai/test_results.py"),
    # Screens
    Mutant("a-terminal-obeys-a-plugin", "terminal/symbols.py", "(character.isprintable() and category[0]", "(category[0]", "tests/terminal/test_painter.py"),
    Mutant("a-variation-changes-the-width", "terminal/symbols.py", '        and "VARIATION SELECTOR" not in unicodedata.name(character, "VARIATION SELECTOR")\n', "", "tests/terminal/test_painter.py"),
    Mutant("half-a-wide-character", "terminal/painter.py", "        elif x + 1 < len(symbols):", "        elif True:", "tests/terminal/test_painter.py"),
    Mutant("every-row-is-drawn-again", "terminal/rows.py", "if changed is None or not known or not fitting:", "if True:", "tests/terminal/test_tmux.py"),
    Mutant("a-stalled-terminal-stalls-the-host", "terminal/app.py", "return bool(told & select.POLLOUT)", "return True", "tests/terminal/test_tmux.py"),
    Mutant("r-is-typed-into-a-hung-plugin", "terminal/canvas.py", "trouble is not None and trouble.restartable", "False", "tests/terminal/test_app.py"),
    Mutant("unseen-screens-are-drawn", "terminal/app.py", "        self._look_away()\n        self._chosen", "        self._chosen", "tests/terminal/test_app.py"),
]  # fmt: skip
