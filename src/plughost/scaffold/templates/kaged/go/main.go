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
func greet(params json.RawMessage) (any, error) {
	var given struct{ Name *string }
	if json.Unmarshal(params, &given) != nil || given.Name == nil {
		return nil, &Refusal{invalidParams, "greet needs a name, as text"}
	}
	return map[string]string{"greeting": greeting(*given.Name)}, nil
}

// As in manifest.yaml.
var plugin = Plugin{
	Name:    "{{name}}",
	Version: "0.1.0",
	Methods: map[string]Method{"{{name}}.greet": greet},
}

func main() {
	out, err := claimStdout()
	if err == nil {
		err = plugin.serve(os.Stdin, out)
	}
	if err != nil {
		log.Fatal(err)
	}
}
