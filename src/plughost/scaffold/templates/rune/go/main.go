// {{name}} greets people.
package main

import (
	"encoding/json"
	"log"
	"os"
)

func greeting(name string) string {
	return "Hello, " + name + "!"
}

// greet: {"name": "Ada"} -> {"greeting": "Hello, Ada!"}
func greet(input, context json.RawMessage) (any, error) {
	var given struct{ Name *string }
	if json.Unmarshal(input, &given) != nil || given.Name == nil {
		return nil, &Refusal{"invalid_input", "greet needs a name, as text"}
	}
	return map[string]string{"greeting": greeting(*given.Name)}, nil
}

var plugin = Plugin{
	ID:           "{{name}}",
	Version:      "0.1.0",
	Capabilities: []string{"tool.execute"},
	Tools:        map[string]Tool{"greet": greet},
}

func main() {
	out, err := claimStdout()
	if err == nil {
		err = serve(plugin, os.Stdin, out)
	}
	if err != nil {
		log.Fatal(err)
	}
}
