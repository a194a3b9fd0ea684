//! {{name}} greets people.
mod frames;
mod json;
mod stdout;
#[cfg(test)]
mod tests;
mod vai;

use json::Json;
use vai::{failed, Call, Failed, Plugin};

fn greeting(name: &str) -> String {
    format!("Hello, {name}!")
}

/// {"name": "Ada"} -> {"greeting": "Hello, Ada!"}
fn greet(input: &Json, call: &Call) -> Result<Json, Failed> {
    let Some(name) = input.get("name").and_then(Json::text) else {
        return Err(failed("greet needs a name, as text"));
    };
    let progress = format!("greeting {name}");
    call.event(Json::object([
        ("type", "progress".into()),
        ("message", progress.into()),
    ]));
    Ok(Json::object([("greeting", greeting(name).into())]))
}

/// As in vai-plugin.toml.
static PLUGIN: Plugin = Plugin {
    exports: &[("tool", "greet", greet)],
};

fn main() {
    let served = stdout::claim().and_then(|out| PLUGIN.serve(std::io::stdin().lock(), out));
    if let Err(error) = served {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
