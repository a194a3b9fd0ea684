//! The contract vai: vai.rpc.v1 in frames, hello first, shutdown last, and requests side by side.
use crate::frames;
use crate::json::Json;
use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const PROTOCOL: &str = "vai.rpc.v1";
const MANIFEST: &str = include_str!("../vai-plugin.toml");

/// A failed result in one's own words; retryable if another try may help.
pub struct Failed {
    pub message: String,
    pub retryable: bool,
}

/// One request under way. The body holds context, config and secrets.
pub struct Call<'a> {
    pub body: &'a Json,
    cancelled: &'a AtomicBool,
    event: &'a dyn Fn(Json),
}

#[allow(dead_code)] // what this plugin does not need yet
impl Call<'_> {
    /// Whether the host wants the call no more.
    pub fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Tells how it goes.
    pub fn event(&self, event: Json) {
        (self.event)(event)
    }
}

/// Does what a request asks: it gets a tool's input, a hook's event, or else the body.
pub type Export = fn(&Json, &Call) -> Result<Json, Failed>;

/// Exports by their kind and id.
pub struct Plugin {
    pub exports: &'static [(&'static str, &'static str, Export)],
}

/// What the threads of one conversation share.
struct Session<W> {
    state: Mutex<State<W>>,
    ended: Condvar,
}

struct State<W> {
    output: W,
    open: HashMap<String, Arc<AtomicBool>>,
}

impl Plugin {
    /// Handles requests until the host says shutdown or has gone.
    pub fn serve<W>(&'static self, mut input: impl BufRead, output: W) -> io::Result<W>
    where
        W: Write + Send + 'static,
    {
        let state = Mutex::new(State {
            output,
            open: HashMap::new(),
        });
        let session = Arc::new(Session {
            state,
            ended: Condvar::new(),
        });
        let mut threads: Vec<JoinHandle<()>> = Vec::new();
        while let Some(body) = frames::read(&mut input)? {
            let message = Json::parse(&body).unwrap_or(Json::Null);
            let kind = text(&message, "type");
            if text(&message, "protocol") != Some(PROTOCOL) {
                eprintln!("dropped a frame that is not a message of {PROTOCOL}");
            } else if kind == Some("shutdown") {
                break;
            } else {
                threads.retain(|thread| !thread.is_finished());
                threads.extend(self.take(&session, kind.unwrap_or(""), &message));
            }
        }
        if !session.end() {
            std::process::exit(0); // what does not stop ends with the process
        }
        for thread in threads {
            let _ = thread.join();
        }
        let state = Arc::into_inner(session).map(|session| session.state.into_inner());
        Ok(state
            .expect("all calls have ended")
            .unwrap_or_else(|broken| broken.into_inner())
            .output)
    }

    fn take<W: Write + Send + 'static>(
        &'static self,
        session: &Arc<Session<W>>,
        kind: &str,
        message: &Json,
    ) -> Option<JoinHandle<()>> {
        match (kind, text(message, "id")) {
            ("hello", _) => session.state().send([
                ("type", "hello".into()),
                ("role", "plugin".into()),
                ("plugin", identity()),
            ]),
            ("cancel", _) => {
                let state = session.state();
                if let Some(flag) = text(message, "request_id").and_then(|id| state.open.get(id)) {
                    flag.store(true, Ordering::Relaxed);
                }
            }
            ("request", Some(id)) => return self.begin(session, id.to_string(), message),
            _ => eprintln!("dropped a frame that is neither hello, request, cancel nor shutdown"),
        }
        None
    }

    /// Starts a call; what is no request is refused at once.
    fn begin<W: Write + Send + 'static>(
        &'static self,
        session: &Arc<Session<W>>,
        id: String,
        message: &Json,
    ) -> Option<JoinHandle<()>> {
        let kind = match text(message, "op") {
            Some("tool.invoke") => "tool",
            Some("hook.handle") => "hook",
            Some("compactor.compact") => "compactor",
            Some("harness.run") => "harness",
            _ => "",
        };
        let body = match message.get("body") {
            Some(body @ Json::Object(_)) if !kind.is_empty() => body.clone(),
            wrong => {
                let has_body = matches!(wrong, Some(Json::Object(_)));
                let why = if has_body {
                    "unknown op"
                } else {
                    "missing body"
                };
                session.state().refuse(&id, why);
                return None;
            }
        };
        let cancelled = Arc::new(AtomicBool::new(false));
        session.state().open.insert(id.clone(), cancelled.clone());
        let session = session.clone();
        Some(thread::spawn(move || {
            let event = |event| {
                session.state().send([
                    ("type", "event".into()),
                    ("request_id", id.as_str().into()),
                    ("event", event),
                ])
            };
            let call = Call {
                body: &body,
                cancelled: &cancelled,
                event: &event,
            };
            let told = self.outcome(kind, &call);
            let told = match call.cancelled() {
                true => Json::object([("status", "cancelled".into())]),
                false => told,
            };
            let mut state = session.state();
            state.open.remove(&id);
            state.respond(&id, kind, told);
            session.ended.notify_all();
        }))
    }

    fn outcome(&self, kind: &str, call: &Call) -> Json {
        let id = text(call.body, "export_id").unwrap_or("");
        let named = |each: &&(&str, &str, Export)| each.0 == kind && each.1 == id;
        let Some((_, _, export)) = self.exports.iter().find(named) else {
            return problem("failed", "export.unknown", "it has no such export");
        };
        let member = match kind {
            "tool" => "input",
            "hook" => "event",
            _ => "",
        };
        let given = match member {
            "" => call.body,
            _ => call.body.get(member).unwrap_or(&Json::Null),
        };
        // A panic has told stderr why; the other calls go on.
        let ran = catch_unwind(AssertUnwindSafe(|| export(given, call)));
        match ran.unwrap_or_else(|_| Err(failed("it panicked"))) {
            Ok(value) => success(kind, value),
            Err(error) => failure(kind, &error),
        }
    }
}

impl<W: Write> Session<W> {
    fn state(&self) -> MutexGuard<'_, State<W>> {
        self.state
            .lock()
            .unwrap_or_else(|broken| broken.into_inner())
    }

    /// Lets what still runs finish, and then cancels it; a host waits for five seconds. Whether all has ended.
    fn end(&self) -> bool {
        for patience in [3, 1] {
            let wait = Duration::from_secs(patience);
            let running = |state: &mut State<W>| !state.open.is_empty();
            let waited = self.ended.wait_timeout_while(self.state(), wait, running);
            let (state, _) = waited.unwrap_or_else(|broken| broken.into_inner());
            for flag in state.open.values() {
                flag.store(true, Ordering::Relaxed);
            }
        }
        self.state().open.is_empty()
    }
}

impl<W: Write> State<W> {
    fn send<const N: usize>(&mut self, members: [(&str, Json); N]) {
        self.write(&Json::object(members));
    }

    fn refuse(&mut self, id: &str, why: &str) {
        self.send([
            ("type", "response".into()),
            ("id", id.into()),
            ("ok", Json::Bool(false)),
            ("error", error("protocol.invalid_frame", why)),
        ]);
    }

    fn respond(&mut self, id: &str, kind: &str, body: Json) {
        let response = |body| {
            Json::object([
                ("type", "response".into()),
                ("id", id.into()),
                ("ok", Json::Bool(true)),
                ("body", body),
            ])
        };
        let told = response(body);
        if told.to_string().len() > frames::MAX_BODY - 100 {
            return self.write(&response(failure(
                kind,
                &failed("its answer is too large to be sent"),
            )));
        }
        self.write(&told);
    }

    fn write(&mut self, message: &Json) {
        let Json::Object(members) = message else {
            return;
        };
        let mut whole = vec![("protocol".to_string(), PROTOCOL.into())];
        whole.extend(members.iter().cloned());
        if let Err(error) = frames::write(&mut self.output, &Json::Object(whole).to_string()) {
            eprintln!("{error}");
        }
    }
}

pub fn failed(message: &str) -> Failed {
    Failed {
        message: message.to_string(),
        retryable: false,
    }
}

fn success(kind: &str, value: Json) -> Json {
    if kind == "hook" {
        return Json::object([("status", "ack".into())]);
    }
    let result = match kind {
        "tool" => tool_result(&value.to_string(), value, false, false),
        _ => value,
    };
    Json::object([("status", "succeeded".into()), ("result", result)])
}

fn failure(kind: &str, failed: &Failed) -> Json {
    let status = match failed.retryable {
        true => "retryable_failure",
        false => "failed",
    };
    let told = problem(status, "plugin.failed", &failed.message);
    match (kind, told) {
        ("tool", Json::Object(mut members)) => {
            let result = tool_result(&failed.message, Json::Null, true, failed.retryable);
            members.push(("result".to_string(), result));
            Json::Object(members)
        }
        (_, told) => told,
    }
}

fn problem(status: &str, code: &str, message: &str) -> Json {
    Json::object([("status", status.into()), ("error", error(code, message))])
}

fn error(code: &str, message: &str) -> Json {
    Json::object([("code", code.into()), ("message", message.into())])
}

fn tool_result(text: &str, value: Json, is_error: bool, retryable: bool) -> Json {
    let item = Json::object([("type", "text".into()), ("text", text.into())]);
    Json::object([
        ("content", Json::List(vec![item])),
        ("structured_output", value),
        ("is_error", Json::Bool(is_error)),
        ("retryable", Json::Bool(retryable)),
    ])
}

fn text<'a>(message: &'a Json, name: &str) -> Option<&'a str> {
    message.get(name).and_then(Json::text)
}

/// From the manifest's first lines, which come before any table.
fn identity() -> Json {
    let value = |key: &str| {
        let found = MANIFEST
            .lines()
            .filter_map(|line| line.split_once('='))
            .find(|(name, _)| name.trim() == key);
        let quoted = found.map_or("", |(_, value)| value);
        quoted.split('"').nth(1).unwrap_or("").into()
    };
    Json::object([
        ("package_id", value("package_id")),
        ("version", value("version")),
    ])
}
