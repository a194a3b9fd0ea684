package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"runtime/debug"
	"unicode/utf8"
)

// The contract mcptest: a request a line, a response a line, until the stream ends.

const (
	parseError     = -32700
	invalidRequest = -32600
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

// Method answers a request. The params are as they came, and nil when there were none.
type Method func(params json.RawMessage) (any, error)

type response struct {
	ID     json.RawMessage `json:"id"` // as it came; null when there is none
	Result json.RawMessage `json:"result,omitempty"`
	Error  *Refusal        `json:"error,omitempty"`
}

// serve answers requests one at a time.
func serve(methods map[string]Method, in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	answers := json.NewEncoder(out) // unbuffered: each answer is one write, with its line end
	answers.SetEscapeHTML(false)
	for {
		line, end := lines.ReadBytes('\n')
		if len(line) > 0 {
			if err := answers.Encode(reply(methods, line)); err != nil {
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

func reply(methods map[string]Method, line []byte) response {
	if !utf8.Valid(line) || !json.Valid(line) {
		return response{Error: &Refusal{parseError, "not JSON"}}
	}
	// A map, because a struct would also take "ID" or "Params" for the members it knows.
	var request map[string]json.RawMessage
	if json.Unmarshal(line, &request) != nil || request == nil {
		return response{Error: &Refusal{invalidRequest, "a request is an object"}}
	}
	answer := response{ID: request["id"]}
	result, err := call(methods, request)
	if err == nil {
		answer.Result, err = json.Marshal(result)
	}
	if err != nil && !errors.As(err, &answer.Error) {
		log.Print(err)
		answer.Error = &Refusal{internalError, err.Error()}
	}
	return answer
}

func call(methods map[string]Method, request map[string]json.RawMessage) (result any, err error) {
	var name string
	if json.Unmarshal(request["method"], &name) != nil || methods[name] == nil {
		return nil, &Refusal{methodNotFound, fmt.Sprintf("no method %s", request["method"])}
	}
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v\n%s", panicked, debug.Stack())
		}
	}()
	return methods[name](request["params"])
}
