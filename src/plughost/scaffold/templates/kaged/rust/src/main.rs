//! {{name}} greets people.
mod json;
mod kaged;
mod stdout;
#[cfg(test)]
mod tests;

use json::Json;
use kaged::{Plugin, Refusal, INVALID_PARAMS};

fn greeting(name: &str) -> String {
    format!("Hello, {name}!")
}

/// {"name": "Ada"} -> {"greeting": "Hello, Ada!"}
fn greet(params: &Json) -> Result<Json, Refusal> {
    match params.get("name").and_then(Json::text) {
        Some(name) => Ok(Json::object([("greeting", greeting(name).into())])),
        None => Err(Refusal(
            INVALID_PARAMS,
            "greet needs a name, as text".to_string(),
        )),
    }
}

/// As in manifest.yaml.
const PLUGIN: Plugin = Plugin {
    name: "{{name}}",
    version: "0.1.0",
    methods: &[("{{name}}.greet", greet)],
};

fn main() {
    let served = stdout::claim().and_then(|out| PLUGIN.serve(std::io::stdin().lock(), out));
    if let Err(error) = served {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
