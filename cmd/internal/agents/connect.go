package agents

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed" // for Skill
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"debrief/events"
	"debrief/playbook"
)

// Skill tells a coding agent how to integrate Debrief into a program.
//
//go:embed SKILL.md
var Skill string

// Options describe what to connect. The zero values of Book, URL and Token keep the values of a repository that is connected already.
type Options struct {
	Agent      string
	Dir        string // in the repository
	Home       string // of the user
	Settings   string // file of SettingsFile
	State      string // directory of StateDir
	Executable string // path of debrief
	Book       string // default: the name of the repository
	URL        string // of the gateway; default: http://127.0.0.1:4280
	Token      string // secret
	Project    bool   // write the hooks into the repository instead of the settings of the user
	AdviceOnly bool   // do not hand over runs
	NoMCP      bool   // do not enter the MCP server
}

// Plan is a set of changes before they are made.
type Plan struct {
	Files      []File      // of the agent, with changes
	Repository *Repository // after the changes; nil if no agent is connected any more

	agent           *agent
	options         Options
	settings        *Settings // after the changes
	gitDir          string
	backups         backups
	settingsChanged bool // the settings change
	isRemoval       bool // the plan is of Disconnect
}

// File is the change of one file.
type File struct {
	Name          string
	Before, After []byte // nil for no file
}

// Changed reports whether the plan changes anything.
func (p *Plan) Changed() bool { return len(p.Files) > 0 || p.settingsChanged }

// Diff returns the changes of files of the agent as unified diffs. They contain no secret of Debrief.
func (p *Plan) Diff() string {
	var out strings.Builder
	for _, f := range p.Files {
		out.Write(diff.Diff(f.Name, f.Before, f.Name, f.After))
	}
	return out.String()
}

// Note returns what the user of the agent has to know, or "".
func (p *Plan) Note() string { return p.agent.note }

// Title returns the name of the agent for people.
func (p *Plan) Title() string { return p.agent.title }

// SettingsFile returns the file with the consent.
func (p *Plan) SettingsFile() string { return p.options.Settings }

// open returns a plan without changes, with what Connect and Disconnect need.
func open(o Options) (*Plan, error) {
	a := find(o.Agent)
	if a == nil {
		return nil, fmt.Errorf("unknown agent %q: want %s", o.Agent, strings.Join(Names, ", "))
	}
	gitDir, err := GitDir(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: a playbook is connected with one repository", o.Dir, err)
	}
	settings, err := ReadSettings(o.Settings)
	if err != nil {
		return nil, err
	}
	p := &Plan{agent: a, options: o, settings: settings, gitDir: gitDir, Repository: settings.Of(o.Dir), backups: backups{}}
	_, err = ReadJSON(p.backupsFile(), &p.backups)
	return p, err
}

// Connect plans to connect an agent. A second plan with the same options changes nothing.
func Connect(o Options) (*Plan, error) {
	p, err := open(o)
	if err != nil {
		return nil, err
	}
	before, _ := json.Marshal(p.Repository)
	if p.Repository == nil { // new, or another repository was at this place before
		p.settings.Repositories = slices.DeleteFunc(p.settings.Repositories, func(r *Repository) bool { return r.GitDir == p.gitDir })
		p.Repository = &Repository{GitDir: p.gitDir, Key: string(events.NewID())}
		p.settings.Repositories = append(p.settings.Repositories, p.Repository)
	}
	r := p.Repository
	r.Book = cmp.Or(o.Book, r.Book, bookOf(p.gitDir))
	r.URL = strings.TrimRight(cmp.Or(o.URL, r.URL, "http://127.0.0.1:4280"), "/")
	r.Token = cmp.Or(o.Token, r.Token)
	r.Transcripts = !o.AdviceOnly
	if !slices.Contains(r.Agents, o.Agent) {
		r.Agents = append(r.Agents, o.Agent)
	}
	if err := events.ValidateBook(playbook.Book(r.Book)); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(r.URL, "http://") && !strings.HasPrefix(r.URL, "https://") {
		return nil, fmt.Errorf("address %q: want one such as http://127.0.0.1:4280", r.URL)
	}
	after, _ := json.Marshal(r)
	p.settingsChanged = !bytes.Equal(before, after)
	command := quoted(o.Executable) + " hook " + o.Agent
	if !ourCommand.MatchString(command) {
		return nil, fmt.Errorf("program %s: want the name debrief, and no quotation mark in the path: its entries in the settings are found by them", o.Executable)
	}
	dir, hooksFile := p.userSettings()
	if o.Project { // others may have the program elsewhere
		command = "debrief hook " + o.Agent
		dir, hooksFile = p.projectSettings()
	}
	if err := p.planEdit(filepath.Join(dir, hooksFile), func(data []byte) ([]byte, error) { return p.agent.installHooks(data, command) }); err != nil {
		return nil, err
	}
	if err := p.planServer(o); err != nil {
		return nil, err
	}
	if p.agent.commandFile == "" {
		return p, nil
	}
	return p, p.planEdit(filepath.Join(dir, p.agent.commandFile), func([]byte) ([]byte, error) { return []byte(p.agent.commandText), nil })
}

// Disconnect plans to remove the connection of an agent. The hooks in the settings of the user stay while another repository uses them.
func Disconnect(o Options) (*Plan, error) {
	p, err := open(o)
	if err != nil {
		return nil, err
	}
	p.isRemoval = true
	if r := p.Repository; r != nil && slices.Contains(r.Agents, o.Agent) {
		p.settingsChanged = true
		r.Agents = slices.DeleteFunc(r.Agents, func(name string) bool { return name == o.Agent })
		if len(r.Agents) == 0 {
			p.settings.Repositories = slices.DeleteFunc(p.settings.Repositories, func(other *Repository) bool { return other == r })
			p.Repository = nil
		}
	}
	if err := p.planRemoval(p.projectSettings()); err != nil {
		return nil, err
	}
	if p.settings.Uses(o.Agent) {
		return p, nil
	}
	if err := p.planRemoval(p.userSettings()); err != nil {
		return nil, err
	}
	return p, p.planEdit(p.agent.serversFile(o.Home), p.agent.removeServer)
}

// planRemoval plans to remove the hooks from a file of a directory, and the file of the command /debrief unless the user has changed it.
func (p *Plan) planRemoval(dir, hooksFile string) error {
	if err := p.planEdit(filepath.Join(dir, hooksFile), p.agent.removeHooks); err != nil || p.agent.commandFile == "" {
		return err
	}
	return p.planEdit(filepath.Join(dir, p.agent.commandFile), func(data []byte) ([]byte, error) {
		if string(data) == p.agent.commandText {
			return nil, nil
		}
		return data, nil
	})
}

// planServer plans the entry of the MCP server, always in the settings of the user.
func (p *Plan) planServer(o Options) error {
	edit := func(data []byte) ([]byte, error) { return p.agent.addServer(data, p.agent.newServer(o.Executable)) }
	if o.NoMCP {
		edit = p.agent.removeServer
	}
	return p.planEdit(p.agent.serversFile(o.Home), edit)
}

// projectSettings returns the directory with the settings of the agent in the repository, and the name of the file with hooks in it.
func (p *Plan) projectSettings() (dir, hooksFile string) {
	return filepath.Join(filepath.Dir(p.gitDir), p.agent.projectDir), cmp.Or(p.agent.projectHooksFile, p.agent.hooksFile)
}

// userSettings returns the directory with the settings of the agent of the user, and the name of the file with hooks in it.
func (p *Plan) userSettings() (dir, hooksFile string) {
	return p.agent.homeDir(p.options.Home), p.agent.hooksFile
}

// planEdit plans an edit of a file, after the edits of the file that are planned already. If entries are removed and the file is as Debrief left
// it, planEdit restores the bytes from before Connect, unless these had an entry of Debrief.
func (p *Plan) planEdit(name string, edit func([]byte) ([]byte, error)) error {
	before, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	planned := before
	i := slices.IndexFunc(p.Files, func(f File) bool { return f.Name == name })
	if i >= 0 {
		planned = p.Files[i].After
	}
	after, err := edit(planned)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if b, ok := p.backups[name]; ok && p.isRemoval && b.After == hashOf(before) { // unchanged since Connect
		if restored, err := edit(b.Before); err == nil && bytes.Equal(restored, b.Before) {
			after = b.Before
		}
	}
	if i >= 0 {
		p.Files = slices.Delete(p.Files, i, i+1)
	}
	if !bytes.Equal(before, after) {
		p.Files = append(p.Files, File{Name: name, Before: before, After: after})
	}
	return nil
}

// Apply makes the changes. It stores the backups before the files change, so that after a crash Disconnect can restore them.
func (p *Plan) Apply() error {
	for _, f := range p.Files {
		p.backups.add(f)
	}
	if err := WriteJSON(p.backupsFile(), p.backups); err != nil {
		return err
	}
	for _, f := range p.Files {
		if err := p.backups.write(f); err != nil {
			return err
		}
	}
	if err := WriteJSON(p.backupsFile(), p.backups); err != nil {
		return err
	}
	key := filepath.Join(p.gitDir, KeyFile)
	if p.Repository == nil {
		if err := removeFile(key); err != nil {
			return err
		}
	} else if err := WriteFile(key, []byte(p.Repository.Key+"\n"), 0o600); err != nil {
		return err
	}
	if len(p.settings.Repositories) == 0 {
		return removeFile(p.options.Settings)
	}
	return WriteJSON(p.options.Settings, p.settings)
}

// removeFile removes a file if it exists.
func removeFile(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// backup is what a file was before Debrief changed it.
type backup struct {
	Before []byte   `json:"before"` // null for no file
	After  string   `json:"after"`  // hash of what Debrief wrote
	Dirs   []string `json:"dirs"`   // that were created for it, the outermost last
}

// backups are kept by the name of the file. They may contain secrets of the user, so only the user can read them.
type backups map[string]backup

func (p *Plan) backupsFile() string { return filepath.Join(p.options.State, "backups.json") }

// restores reports whether a change takes back what Debrief changed.
func (b backups) restores(f File) bool {
	old, known := b[f.Name]
	return f.After == nil || known && bytes.Equal(f.After, old.Before)
}

// add adds the backup of a file that will change, unless the change restores it.
func (b backups) add(f File) {
	if b.restores(f) {
		return
	}
	now := backup{Before: f.Before, After: hashOf(f.After), Dirs: missingDirs(filepath.Dir(f.Name))}
	if old, known := b[f.Name]; known && old.After == hashOf(f.Before) {
		now.Before, now.Dirs = old.Before, old.Dirs
	}
	b[f.Name] = now
}

// write changes a file, through a link to it. It removes the backup of a file that it restores.
func (b backups) write(f File) error {
	dirs := b[f.Name].Dirs
	if b.restores(f) {
		defer delete(b, f.Name)
	}
	if f.After == nil {
		if err := os.Remove(f.Name); err != nil {
			return err
		}
		for _, dir := range dirs {
			_ = os.Remove(dir) // it stays if others use it
		}
		return nil
	}
	target, mode := f.Name, fs.FileMode(0o600)
	if resolved, err := filepath.EvalSymlinks(f.Name); err == nil {
		target = resolved
	}
	if info, err := os.Stat(target); err == nil {
		mode = info.Mode().Perm()
	}
	return WriteFile(target, f.After, mode)
}

// missingDirs returns the directories that do not exist, from the inside out.
func missingDirs(dir string) (list []string) {
	for {
		if _, err := os.Stat(dir); err == nil || filepath.Dir(dir) == dir {
			return list
		}
		list = append(list, dir)
		dir = filepath.Dir(dir)
	}
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// bookOf returns a name for the playbook of a repository: that of its directory.
func bookOf(gitDir string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '-'
	}, filepath.Base(filepath.Dir(gitDir)))
	return cmp.Or(strings.Trim(name[:min(len(name), 64)], "-"), "default")
}

// quoted returns a path as one word of a shell. Inside quotation marks a shell still replaces text after a dollar sign or a backquote, except
// that of Windows.
func quoted(path string) string {
	if !strings.ContainsAny(path, " '()&;$`") {
		return path
	}
	if runtime.GOOS != "windows" {
		path = strings.NewReplacer("$", `\$`, "`", "\\`").Replace(path)
	}
	return `"` + path + `"`
}
