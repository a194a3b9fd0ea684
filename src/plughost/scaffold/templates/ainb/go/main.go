// {{name}} greets people.
package main

import (
	"fmt"
	"io"
	"log"
	"os"
)

var lastKey = "none yet"

func greeting(name string) string {
	return "Hello, " + name + "!"
}

func draw(screen *Screen) {
	screen.Put(0, 0, greeting("world"), bold)
	screen.Put(0, 1, "Last key: "+lastKey, 0)
}

func key(key Key) {
	lastKey = key.Code.Type
	if key.Code.Ch != "" {
		lastKey = key.Code.Ch
	}
}

// command: `{{name}} Ada` prints a greeting.
func command(argv []string, stdout, stderr io.Writer) int {
	name := "world"
	if len(argv) > 0 {
		name = argv[0]
	}
	fmt.Fprintln(stdout, greeting(name))
	return 0
}

var plugin = Plugin{Draw: draw, Key: key, Commands: map[string]Command{"{{name}}": command}}

func main() {
	out, err := claimStdout()
	if err == nil {
		err = serve(plugin, os.Stdin, out)
	}
	if err != nil {
		log.Fatal(err)
	}
}
