// The rune reference plugin in Go: one process per call; the tool `echo` returns its input.
// Build: go build -o bin/echo echo.go
package main

import (
	"bufio"
	"encoding/json"
	"io"
	"log"
	"os"
)

type object = map[string]any

func main() {
	lines := bufio.NewReader(os.Stdin)
	answers := json.NewEncoder(os.Stdout) // unbuffered: each answer is one write, with its line end
	answers.SetEscapeHTML(false)

	read(lines) // the host compares the versions, not the plugin
	send(answers, object{"type": "handshake", "manifest": object{
		"plugin_id":        "example.echo-go",
		"plugin_version":   "1.0.0",
		"protocol_version": "rterm.plugin.v1",
		"exposed_tools":    []string{"echo", "fail"},
		"capabilities":     []string{"tool.execute"},
	}})

	request := read(lines)
	answer := object{"type": "response", "request_id": request["request_id"]}
	if string(request["tool_name"]) == `"echo"` {
		answer["status"] = "ok"
		answer["output"] = request["input"]
		answer["metadata"] = object{"context": request["context"]}
	} else {
		answer["status"] = "error"
		answer["error"] = object{"code": "asked_for", "message": "you asked for it"}
	}
	send(answers, answer)
	io.Copy(io.Discard, lines) // until the host is done: an early exit can cost it the answer
}

// read gives the next message, its members as they stand; at the end of stdin there is nothing left to do.
func read(lines *bufio.Reader) map[string]json.RawMessage {
	line, err := lines.ReadBytes('\n')
	if err == io.EOF && len(line) == 0 {
		os.Exit(0)
	}
	var message map[string]json.RawMessage
	if err := json.Unmarshal(line, &message); err != nil {
		log.Fatal(err) // on stderr, with exit code 1
	}
	return message
}

func send(answers *json.Encoder, message object) {
	if err := answers.Encode(message); err != nil {
		log.Fatal(err)
	}
}
