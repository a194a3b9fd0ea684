// {{name}} greets people.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
)

func greeting(name string) string {
	return "Hello, " + name + "!"
}

// greet: {"name": "Ada"} -> {"greeting": "Hello, Ada!"}
func greet(_ context.Context, input json.RawMessage, call *Call) (any, error) {
	var given struct{ Name *string }
	if json.Unmarshal(input, &given) != nil || given.Name == nil {
		return nil, &Failed{Message: "greet needs a name, as text"}
	}
	call.Event(object{"type": "progress", "message": "greeting " + *given.Name})
	return map[string]string{"greeting": greeting(*given.Name)}, nil
}

// As in vai-plugin.toml.
var plugin = Plugin{"tool/greet": greet}

func main() {
	out, err := claimStdout()
	if err == nil {
		err = plugin.serve(os.Stdin, out)
	}
	if err != nil {
		log.Fatal(err)
	}
}
