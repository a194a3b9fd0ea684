package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"runtime/debug"
	"sort"
	"unicode/utf8"
)

// The contract rune: a handshake, a request and a response, a line each, and then the end.

const protocol = "rterm.plugin.v1"

// Refusal is the error to return for an answer with a code of one's own.
type Refusal struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (refusal *Refusal) Error() string { return refusal.Message }

// Tool answers a call; input and context are as they came.
type Tool func(input, context json.RawMessage) (any, error)

// Plugin is what a plugin says of itself, and what it does.
type Plugin struct {
	ID           string
	Version      string
	Capabilities []string
	Tools        map[string]Tool
}

type object = map[string]any
type members = map[string]json.RawMessage

// serve answers one call.
func serve(plugin Plugin, in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	answers := json.NewEncoder(out) // unbuffered: each answer is one write, with its line end
	answers.SetEscapeHTML(false)

	opening, err := read(lines, "handshake")
	if err != nil || opening == nil {
		return err
	}
	if err := answers.Encode(plugin.handshake()); err != nil {
		return err
	}
	request, err := read(lines, "request")
	if err != nil || request == nil {
		return err
	}
	if err := answers.Encode(plugin.respond(request)); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, lines) // until the host is done, too
	return err
}

// read gives the message of this type that is due, nil at the end, and an error for anything else.
func read(lines *bufio.Reader, kind string) (members, error) {
	line, err := lines.ReadBytes('\n')
	if err == io.EOF && len(line) == 0 {
		return nil, nil
	}
	var message members
	if !utf8.Valid(line) || json.Unmarshal(line, &message) != nil || string(message["type"]) != `"`+kind+`"` {
		return nil, fmt.Errorf("the host sent something other than a %s: %.80q", kind, line)
	}
	return message, nil
}

func (plugin Plugin) handshake() object {
	tools := make([]string, 0, len(plugin.Tools))
	for name := range plugin.Tools {
		tools = append(tools, name)
	}
	sort.Strings(tools)
	return object{"type": "handshake", "manifest": object{
		"plugin_id":        plugin.ID,
		"plugin_version":   plugin.Version,
		"protocol_version": protocol,
		"exposed_tools":    tools,
		"capabilities":     plugin.Capabilities,
	}}
}

func (plugin Plugin) respond(request members) object {
	answer := object{"type": "response", "request_id": request["request_id"]}
	output, err := plugin.execute(request)
	if err == nil {
		var encoded []byte
		if encoded, err = json.Marshal(output); err == nil {
			answer["status"], answer["output"] = "ok", json.RawMessage(encoded)
			return answer
		}
	}
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		log.Print(err)
		refusal = &Refusal{"failed", err.Error()}
	}
	answer["status"], answer["error"] = "error", refusal
	return answer
}

func (plugin Plugin) execute(request members) (output any, err error) {
	var name string
	if json.Unmarshal(request["tool_name"], &name) != nil || plugin.Tools[name] == nil {
		return nil, &Refusal{"unknown_tool", fmt.Sprintf("no tool %s", request["tool_name"])}
	}
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v\n%s", panicked, debug.Stack())
		}
	}()
	return plugin.Tools[name](request["input"], request["context"])
}
