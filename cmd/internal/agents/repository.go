package agents

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Repository is the consent of the user to use a playbook in a repository. It is in the user's settings, never in the repository:
// neither a clone nor a file in it can choose a playbook, an address or a token.
type Repository struct {
	// GitDir is the directory with the history of the repository, with links resolved. All its worktrees have the same.
	GitDir string `json:"git_dir"`
	// Key is a random text that the file KeyFile in GitDir repeats. A clone does not get the file. So the consent ends when another
	// repository takes the place of this one.
	Key string `json:"key"`

	Book        string   `json:"book"`
	URL         string   `json:"url"`
	Token       string   `json:"token,omitempty"` // secret
	Agents      []string `json:"agents"`          // that are connected
	Transcripts bool     `json:"transcripts"`     // runs are handed over, not only advice is shown
}

// KeyFile is the name of the file in GitDir with the key.
const KeyFile = "debrief.key"

// Settings are the settings of the user for coding agents: a file that only the user can read.
type Settings struct {
	Repositories []*Repository `json:"repositories"`
}

// SettingsFile returns the name of the file: debrief/agents.json in the directory for settings of the user.
func SettingsFile() (string, error) {
	dir, err := os.UserConfigDir()
	return filepath.Join(dir, "debrief", "agents.json"), err
}

// ReadSettings reads a file of settings. A missing file has none.
func ReadSettings(file string) (*Settings, error) {
	s := new(Settings)
	if _, err := ReadJSON(file, s); err != nil {
		return nil, fmt.Errorf("read settings %s: %w", file, err)
	}
	return s, nil
}

// Of returns the repository of a directory, or nil without the consent of the user.
func (s *Settings) Of(dir string) *Repository {
	gitDir, err := GitDir(dir)
	if err != nil {
		return nil
	}
	return s.ofGitDir(gitDir)
}

func (s *Settings) ofGitDir(gitDir string) *Repository {
	for _, r := range s.Repositories {
		if r.GitDir != gitDir || r.Key == "" {
			continue
		}
		key, err := os.ReadFile(filepath.Join(gitDir, KeyFile))
		if err == nil && strings.TrimSpace(string(key)) == r.Key {
			return r
		}
	}
	return nil
}

// Uses reports whether an agent is connected in any repository.
func (s *Settings) Uses(agent string) bool {
	return slices.ContainsFunc(s.Repositories, func(r *Repository) bool { return slices.Contains(r.Agents, agent) })
}

// ErrNoRepository is returned for a directory outside of any git repository.
var ErrNoRepository = errors.New("not in a git repository")

// GitDir returns the directory with the history of the repository around a directory, with links resolved. For a worktree this is the
// directory of the main repository, which must list the worktree: otherwise a downloaded file named .git could claim any repository.
func GitDir(dir string) (string, error) {
	dir, err := filepath.EvalSymlinks(cmp.Or(dir, "."))
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return "", err
	}
	for {
		git := filepath.Join(dir, ".git")
		info, err := os.Lstat(git)
		switch {
		case err == nil && info.IsDir():
			return git, nil
		case err == nil:
			return worktreeGitDir(git)
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", ErrNoRepository
		}
		dir = parent
	}
}

// worktreeGitDir returns the directory of the repository that has a worktree with this file .git. The two refer to each other:
//
//	/tree/.git                          gitdir: /repo/.git/worktrees/tree
//	/repo/.git/worktrees/tree/gitdir    /tree/.git
func worktreeGitDir(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	entry := strings.TrimSpace(strings.TrimPrefix(string(text), "gitdir:"))
	if !filepath.IsAbs(entry) {
		entry = filepath.Join(filepath.Dir(file), entry)
	}
	if entry, err = filepath.EvalSymlinks(entry); err != nil {
		return "", err
	}
	back, err := os.ReadFile(filepath.Join(entry, "gitdir"))
	if err != nil {
		return "", ErrNoRepository
	}
	listed := strings.TrimSpace(string(back))
	if !filepath.IsAbs(listed) {
		listed = filepath.Join(entry, listed)
	}
	listed, err = filepath.EvalSymlinks(listed)
	if err != nil || listed != file {
		return "", ErrNoRepository
	}
	list := filepath.Dir(entry)
	if filepath.Base(list) != "worktrees" {
		return "", ErrNoRepository
	}
	return filepath.Dir(list), nil
}
