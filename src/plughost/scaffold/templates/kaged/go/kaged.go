package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"runtime/debug"
	"sort"
	"unicode/utf8"
)

// The contract kaged: JSON-RPC, a message a line, initialize first, until the stream ends.

const (
	apiVersion     = 1
	maxMessage     = 4_000_000
	envelope       = 200 // more than what goes around a result
	methodNotFound = -32601
	invalidParams  = -32602
	internalError  = -32603
)

// Refusal is the error to return for an answer with a code of one's own.
type Refusal struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (refusal *Refusal) Error() string { return refusal.Message }

// Method answers a call. The params are as they came; who calls, on whose behalf, is in their member _context.
type Method func(params json.RawMessage) (any, error)

// Plugin is what a plugin says of itself, and what it does.
type Plugin struct {
	Name    string
	Version string
	Methods map[string]Method
}

type object = map[string]any
type members = map[string]json.RawMessage

type response struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Refusal        `json:"error,omitempty"`
}

// serve answers calls one at a time, in their order.
func (plugin Plugin) serve(in io.Reader, out io.Writer) error {
	for lines := bufio.NewReader(in); ; {
		line, end := lines.ReadBytes('\n')
		if answer := plugin.handle(line); answer != nil {
			if _, err := out.Write(append(answer, '\n')); err != nil {
				return err
			}
		}
		if end == io.EOF {
			return nil
		}
		if end != nil {
			return end
		}
	}
}

// handle gives the answer to a line, and nil when nobody waits for one.
func (plugin Plugin) handle(line []byte) []byte {
	// A map, because a struct would also take "ID" or "Params" for the members it knows.
	var message members
	var method string
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return nil
	}
	if !utf8.Valid(line) || json.Unmarshal(line, &message) != nil {
		log.Printf("dropped something that is not a message: %.80q", line)
		return nil
	}
	if json.Unmarshal(message["method"], &method) != nil {
		return nil // it answers nothing that was asked
	}
	result, err := plugin.call(method, message["params"])
	id := message["id"]
	if id == nil || string(id) == "null" {
		return nil
	}
	answer := response{Version: "2.0", ID: id}
	if err == nil {
		answer.Result, err = encode(result)
	}
	if size := len(answer.Result); err == nil && size > maxMessage-envelope {
		err = fmt.Errorf("a result of %d bytes is too large for a message of %d", size, maxMessage)
	}
	if err != nil {
		var refusal *Refusal
		if !errors.As(err, &refusal) {
			log.Print(err)
			refusal = &Refusal{internalError, err.Error()}
		}
		answer.Error, answer.Result = &Refusal{refusal.Code, fmt.Sprintf("%.10000s", refusal.Message)}, nil
	}
	whole, err := encode(answer)
	if err != nil {
		log.Print(err)
	}
	return whole
}

// encode is json.Marshal, but leaves <, > and & as they are.
func encode(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

func (plugin Plugin) call(name string, params json.RawMessage) (result any, err error) {
	switch name {
	case "initialize":
		return plugin.about(), nil
	case "health.check", "ping", "shutdown": // the end of the stream is the end
		return object{"status": "ok"}, nil
	}
	method := plugin.Methods[name]
	if method == nil {
		return nil, &Refusal{methodNotFound, fmt.Sprintf("method not found: %.1000s", name)}
	}
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v\n%s", panicked, debug.Stack())
		}
	}()
	return method(params)
}

func (plugin Plugin) about() object {
	methods := make([]string, 0, len(plugin.Methods))
	for name := range plugin.Methods {
		methods = append(methods, name)
	}
	sort.Strings(methods)
	return object{
		"name":              plugin.Name,
		"version":           plugin.Version,
		"api_version":       apiVersion,
		"methods":           methods,
		"notifications":     []string{},
		"capabilities_used": []string{},
	}
}
