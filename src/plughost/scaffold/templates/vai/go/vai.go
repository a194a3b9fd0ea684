package main

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"regexp"
	"runtime/debug"
	"sync"
	"time"
	"unicode/utf8"
)

// The contract vai: vai.rpc.v1 in frames, hello first, shutdown last, and requests side by side.

const protocol = "vai.rpc.v1"

var kinds = map[string]string{
	"tool.invoke":       "tool",
	"hook.handle":       "hook",
	"compactor.compact": "compactor",
	"harness.run":       "harness",
}

//go:embed vai-plugin.toml
var manifest string

type object = map[string]any

// Failed is the error to return for a failed result in one's own words; Retryable if another try may help.
type Failed struct {
	Message   string
	Retryable bool
}

func (failed *Failed) Error() string { return failed.Message }

// Call is one request under way. Body holds context, config and secrets; Event tells how it goes.
type Call struct {
	Body  map[string]json.RawMessage
	Event func(event any)
}

// Export does what a request asks: given is a tool's input, a hook's event, or else the body. The context is done when
// the host wants the call no more.
type Export func(ctx context.Context, given json.RawMessage, call *Call) (any, error)

// Plugin has the exports by their kind and id, such as "tool/greet".
type Plugin map[string]Export

type message struct {
	Protocol  string          `json:"protocol"`
	Type      string          `json:"type"`
	ID        *string         `json:"id"`
	Op        string          `json:"op"`
	RequestID string          `json:"request_id"`
	Body      json.RawMessage `json:"body"`
}

// session is one conversation with a host.
type session struct {
	plugin Plugin
	out    io.Writer
	mutex  sync.Mutex
	open   map[string]context.CancelFunc
	calls  sync.WaitGroup
}

// serve handles requests until the host says shutdown or has gone.
func (plugin Plugin) serve(in io.Reader, out io.Writer) error {
	session := &session{plugin: plugin, out: out, open: map[string]context.CancelFunc{}}
	defer session.end()
	for frames := bufio.NewReader(in); ; {
		body, err := readFrame(frames)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the host's stream cannot be read: %w", err)
		}
		var told message
		if !utf8.Valid(body) || json.Unmarshal(body, &told) != nil || told.Protocol != protocol {
			log.Printf("dropped a frame that is not a message of %s: %.80q", protocol, body)
		} else if told.Type == "shutdown" {
			return nil
		} else {
			session.take(told)
		}
	}
}

func (session *session) take(told message) {
	switch {
	case told.Type == "hello":
		session.send(object{"type": "hello", "role": "plugin", "plugin": identity()})
	case told.Type == "cancel":
		session.mutex.Lock()
		defer session.mutex.Unlock()
		if cancel := session.open[told.RequestID]; cancel != nil {
			cancel()
		}
	case told.Type == "request" && told.ID != nil:
		session.begin(told)
	default:
		log.Printf("dropped a frame that is neither hello, request, cancel nor shutdown: %.80q", told.Type)
	}
}

// begin starts a call; what is no request is refused at once.
func (session *session) begin(told message) {
	id, call := *told.ID, &Call{}
	refuse := func(why string) {
		problem := object{"code": "protocol.invalid_frame", "message": why}
		session.send(object{"type": "response", "id": id, "ok": false, "error": problem})
	}
	if json.Unmarshal(told.Body, &call.Body) != nil || call.Body == nil {
		refuse("missing body")
		return
	}
	kind := kinds[told.Op]
	if kind == "" {
		refuse("unknown op")
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	call.Event = func(event any) { session.say(id, object{"type": "event", "request_id": id, "event": event}, false) }
	session.mutex.Lock()
	session.open[id] = cancel
	session.mutex.Unlock()
	session.calls.Add(1)
	go func() {
		defer session.calls.Done()
		body := session.plugin.outcome(ctx, kind, told.Body, call)
		if ctx.Err() != nil {
			body = object{"status": "cancelled"}
		}
		cancel()
		session.say(id, object{"type": "response", "id": id, "ok": true, "body": body}, true)
	}()
}

// say sends something about a call, unless that has been answered already.
func (session *session) say(id string, told object, last bool) {
	session.mutex.Lock()
	defer session.mutex.Unlock()
	if session.open[id] == nil {
		return
	}
	if last {
		delete(session.open, id)
	}
	session.write(told)
}

func (session *session) send(told object) {
	session.mutex.Lock()
	defer session.mutex.Unlock()
	session.write(told)
}

func (session *session) write(told object) {
	told["protocol"] = protocol
	body, err := encode(told)
	if err == nil {
		err = writeFrame(session.out, body)
	}
	if err != nil && told["ok"] == true {
		problem := object{"code": "plugin.failed", "message": fmt.Sprintf("its answer cannot be sent: %v", err)}
		body, _ = encode(object{"protocol": protocol, "type": "response", "id": told["id"], "ok": true,
			"body": object{"status": "failed", "error": problem}})
		err = writeFrame(session.out, body)
	}
	if err != nil {
		log.Print(err)
	}
}

// end lets what still runs finish, and then cancels it; a host waits for five seconds.
func (session *session) end() {
	done := make(chan struct{})
	go func() { session.calls.Wait(); close(done) }()
	select {
	case <-done:
		return
	case <-time.After(3 * time.Second):
	}
	session.mutex.Lock()
	for _, cancel := range session.open {
		cancel()
	}
	session.mutex.Unlock()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}

func (plugin Plugin) outcome(ctx context.Context, kind string, body json.RawMessage, call *Call) (told object) {
	var id string
	_ = json.Unmarshal(call.Body["export_id"], &id)
	export := plugin[kind+"/"+id]
	if export == nil {
		return object{"status": "failed", "error": object{"code": "export.unknown", "message": "it has no such export"}}
	}
	defer func() {
		if panicked := recover(); panicked != nil {
			told = failure(kind, fmt.Errorf("panic: %v\n%s", panicked, debug.Stack()))
		}
	}()
	given := body
	switch kind {
	case "tool":
		given = call.Body["input"]
	case "hook":
		given = call.Body["event"]
	}
	value, err := export(ctx, given, call)
	if err != nil {
		return failure(kind, err)
	}
	return success(kind, value)
}

func success(kind string, value any) object {
	switch kind {
	case "hook":
		return object{"status": "ack"}
	case "tool":
		text, err := encode(value)
		if err != nil {
			return failure(kind, err)
		}
		return object{"status": "succeeded", "result": toolResult(string(text), value, false, false)}
	}
	return object{"status": "succeeded", "result": value}
}

func failure(kind string, err error) object {
	var failed *Failed
	if !errors.As(err, &failed) {
		log.Print(err)
		failed = &Failed{Message: err.Error()}
	}
	status, text := "failed", fmt.Sprintf("%.10000s", failed.Message)
	if failed.Retryable {
		status = "retryable_failure"
	}
	told := object{"status": status, "error": object{"code": "plugin.failed", "message": text}}
	if kind == "tool" {
		told["result"] = toolResult(text, nil, true, failed.Retryable)
	}
	return told
}

func toolResult(text string, value any, isError, retryable bool) object {
	content := []object{{"type": "text", "text": text}}
	return object{"content": content, "structured_output": value, "is_error": isError, "retryable": retryable}
}

// encode is json.Marshal, but leaves <, > and & as they are.
func encode(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// identity is from the manifest's first lines, which come before any table.
func identity() object {
	told := object{}
	for _, key := range []string{"package_id", "version"} {
		if found := regexp.MustCompile(`(?m)^` + key + `\s*=\s*"(.*?)"`).FindStringSubmatch(manifest); found != nil {
			told[key] = found[1]
		}
	}
	return told
}
