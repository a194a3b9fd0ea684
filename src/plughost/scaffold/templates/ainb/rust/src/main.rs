//! {{name}} greets people.
mod ainb;
mod frames;
mod json;
mod manifest;
mod screen;
mod stdout;
#[cfg(test)]
mod tests;

use ainb::{Output, Plugin};
use json::Json;
use screen::{Screen, BOLD};

fn greeting(name: &str) -> String {
    format!("Hello, {name}!")
}

struct Greeter {
    last_key: String,
}

impl Greeter {
    fn new() -> Greeter {
        Greeter {
            last_key: "none yet".to_string(),
        }
    }
}

impl Plugin for Greeter {
    fn draw(&self, screen: &mut Screen) {
        screen.put(0, 0, &greeting("world"), BOLD);
        screen.put(0, 1, &format!("Last key: {}", self.last_key), 0);
    }

    fn key(&mut self, code: &Json) {
        let name = code.get("ch").or(code.get("type")).and_then(Json::text);
        self.last_key = name.unwrap_or("unknown").to_string();
    }

    /// `{{name}} Ada` prints a greeting.
    fn command(&mut self, namespace: &str, argv: &[&str]) -> Option<Output> {
        let stdout = greeting(argv.first().unwrap_or(&"world")) + "\n";
        (namespace == "{{name}}").then(|| Output {
            stdout,
            ..Output::default()
        })
    }
}

fn main() {
    let served = stdout::claim()
        .and_then(|out| ainb::serve(&mut Greeter::new(), std::io::stdin().lock(), out));
    if let Err(error) = served {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
