package main

import (
	"bufio"
	"bytes"
	encoding "encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"runtime/debug"
	"unicode/utf8"
)

// The contract ainb: JSON-RPC in frames, plugin/init first, plugin/shutdown last.

const (
	abiVersion         = 2
	methodNotFound     = -32601
	invalidParams      = -32602
	internalError      = -32603
	manifestValidation = -32003
)

// Refusal is the error to return for an answer with a code of one's own.
type Refusal struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (refusal *Refusal) Error() string { return refusal.Message }

// Plugin is what a plugin does.
type Plugin struct {
	Draw     func(screen *Screen)
	Key      func(key Key)
	Commands map[string]Command
}

// Command runs a command line: what it writes is the output, what it returns the exit code.
type Command func(argv []string, stdout, stderr io.Writer) int

// Key is a key: Type is its name (char, enter, esc, page_up, f …), Ch the character of a char.
type Key struct {
	Code struct {
		Type string
		Ch   string
		N    int
	}
	Mods int
	Kind string
}

type members = map[string]json.RawMessage
type object = map[string]any

// serve handles messages one at a time, in their order, until the host says shutdown or has gone.
func serve(plugin Plugin, in io.Reader, out io.Writer) error {
	for frames := bufio.NewReader(in); ; {
		body, err := readFrame(frames)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the host's stream cannot be read: %w", err)
		}
		// A map, because a struct would also take "ID" or "Params" for the members it knows.
		var message members
		var method string
		if !utf8.Valid(body) || json.Unmarshal(body, &message) != nil {
			log.Printf("dropped something that is not a message: %.80q", body)
			continue
		}
		if json.Unmarshal(message["method"], &method) != nil {
			continue // it answers nothing that was asked
		}
		answer := plugin.reply(method, message)
		if id := message["id"]; id != nil && string(id) != "null" {
			if err := writeFrame(out, answer); err != nil {
				return err
			}
		}
		if method == "plugin/shutdown" {
			return nil
		}
	}
}

func (plugin Plugin) reply(method string, message members) []byte {
	answer := object{"jsonrpc": "2.0", "id": message["id"]}
	result, err := plugin.call(method, message["params"])
	if err == nil {
		answer["result"] = result
		var body []byte
		if body, err = encode(answer); err == nil && len(body) <= maxBody {
			return body
		}
		if err == nil {
			err = fmt.Errorf("a result of %d bytes is too large for a frame", len(body))
		}
		delete(answer, "result")
	}
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		log.Print(err)
		refusal = &Refusal{internalError, fmt.Sprint(err)}
	}
	answer["error"] = refusal
	body, _ := encode(answer) // of texts and numbers
	return body
}

func encode(message any) ([]byte, error) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(message)
	return bytes.TrimSuffix(body.Bytes(), []byte("\n")), err
}

func (plugin Plugin) call(method string, params json.RawMessage) (result any, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v\n%s", panicked, debug.Stack())
		}
	}()
	switch method {
	case "plugin/init":
		return initialise(params)
	case "plugin/shutdown":
		return object{}, nil
	case "plugin/render":
		return plugin.render(params)
	case "plugin/handle_key":
		return plugin.handleKey(params)
	case "plugin/cli_dispatch":
		return plugin.dispatch(params)
	}
	return nil, &Refusal{methodNotFound, "method not found: " + method}
}

func initialise(params json.RawMessage) (any, error) {
	var given struct {
		Abi     *int      `json:"abi_version"`
		Granted *[]string `json:"granted_capabilities"`
	}
	if json.Unmarshal(params, &given) != nil || given.Abi == nil || given.Granted == nil {
		return nil, &Refusal{invalidParams, "plugin/init takes abi_version and granted_capabilities"}
	}
	if *given.Abi != abiVersion {
		told := fmt.Sprintf("the host speaks ABI %d, this plugin %d", *given.Abi, abiVersion)
		return nil, &Refusal{manifestValidation, told}
	}
	manifest, err := readManifest()
	about := manifest["plugin"]
	return object{"name": about["name"], "version": about["version"], "abi_version": abiVersion, "manifest": manifest}, err
}

func (plugin Plugin) render(params json.RawMessage) (any, error) {
	var given struct {
		Viewport struct{ Width, Height *uint16 }
	}
	if json.Unmarshal(params, &given) != nil || given.Viewport.Width == nil || given.Viewport.Height == nil {
		return nil, &Refusal{invalidParams, "viewport must have two sides from 0 to 65535"}
	}
	screen := newScreen(int(*given.Viewport.Width), int(*given.Viewport.Height))
	plugin.Draw(screen)
	return object{"buffer": screen}, nil
}

func (plugin Plugin) handleKey(params json.RawMessage) (any, error) {
	var given struct{ Key Key }
	if json.Unmarshal(params, &given) != nil || given.Key.Code.Type == "" {
		return nil, &Refusal{invalidParams, "key must have a code"}
	}
	plugin.Key(given.Key)
	return object{}, nil
}

func (plugin Plugin) dispatch(params json.RawMessage) (any, error) {
	var given struct {
		Namespace *string
		Argv      *[]string
	}
	if json.Unmarshal(params, &given) != nil || given.Namespace == nil || given.Argv == nil {
		return nil, &Refusal{invalidParams, "plugin/cli_dispatch takes a namespace and a list of words"}
	}
	var stdout, stderr bytes.Buffer
	code := 2
	if run := plugin.Commands[*given.Namespace]; run != nil {
		code = run(*given.Argv, &stdout, &stderr)
	} else {
		fmt.Fprintf(&stderr, "plugin does not handle namespace `%s`\n", *given.Namespace)
	}
	return object{"stdout": base64(stdout), "stderr": base64(stderr), "exit_code": code}, nil
}

func base64(text bytes.Buffer) string {
	return encoding.StdEncoding.EncodeToString(text.Bytes())
}
