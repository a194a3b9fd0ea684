//! {{name}} greets people.
mod json;
mod rune;
mod stdout;
#[cfg(test)]
mod tests;

use json::Json;
use rune::{Plugin, Refusal};

fn greeting(name: &str) -> String {
    format!("Hello, {name}!")
}

/// {"name": "Ada"} -> {"greeting": "Hello, Ada!"}
fn greet(input: &Json, _context: &Json) -> Result<Json, Refusal> {
    match input.get("name").and_then(Json::text) {
        Some(name) => Ok(Json::object([("greeting", greeting(name).into())])),
        None => Err(Refusal(
            "invalid_input",
            "greet needs a name, as text".to_string(),
        )),
    }
}

const PLUGIN: Plugin = Plugin {
    id: "{{name}}",
    version: "0.1.0",
    capabilities: &["tool.execute"],
    tools: &[("greet", greet)],
};

fn main() {
    let served = stdout::claim().and_then(|out| PLUGIN.serve(std::io::stdin().lock(), out));
    if let Err(error) = served {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
