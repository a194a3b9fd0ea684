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
// Return an empty map rather than nil: mcptest's own host treats a null result as a missing one.
func greet(params json.RawMessage) (any, error) {
	var given struct{ Name *string }
	if json.Unmarshal(params, &given) != nil || given.Name == nil {
		return nil, &Refusal{invalidParams, "greet needs a name, as text"}
	}
	return map[string]string{"greeting": greeting(*given.Name)}, nil
}

var methods = map[string]Method{"greet": greet}

func main() {
	out, err := claimStdout()
	if err == nil {
		err = serve(methods, os.Stdin, out)
	}
	if err != nil {
		log.Fatal(err)
	}
}
