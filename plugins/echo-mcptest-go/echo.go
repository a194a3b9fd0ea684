// The mcptest reference plugin in Go: `echo` returns its params, `ping` returns "pong".
// Build: go build -o bin/echo echo.go
package main

import (
	"bufio"
	"encoding/json"
	"os"
)

type response struct {
	ID     json.RawMessage `json:"id"` // as it came; null when there is none
	Result json.RawMessage `json:"result,omitempty"`
	Error  *failure        `json:"error,omitempty"`
}

type failure struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func reply(line []byte) response {
	// A map, because a struct would also take "ID" or "Params" for the members it knows.
	var request map[string]json.RawMessage
	var method string
	if json.Unmarshal(line, &request) != nil || json.Unmarshal(request["method"], &method) != nil {
		return response{Error: &failure{-32700, "not a request"}}
	}
	id, params := request["id"], request["params"]
	switch {
	case method == "echo" && params != nil:
		return response{ID: id, Result: params}
	case method == "echo":
		return response{ID: id, Error: &failure{-32602, "echo needs params"}}
	case method == "ping":
		return response{ID: id, Result: json.RawMessage(`"pong"`)}
	}
	return response{ID: id, Error: &failure{-32601, "no method " + method}}
}

func main() {
	requests := bufio.NewReader(os.Stdin)
	answers := json.NewEncoder(os.Stdout) // unbuffered: each answer is one write, with its line end
	answers.SetEscapeHTML(false)
	for {
		line, end := requests.ReadBytes('\n')
		if len(line) > 0 && answers.Encode(reply(line)) != nil {
			os.Exit(1)
		}
		if end != nil {
			return
		}
	}
}
