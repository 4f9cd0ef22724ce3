// SPDX-License-Identifier: LGPL-2.1-or-later

// goremove removes one tree with os.RemoveAll, or with -list each file that a
// list names with os.Remove: what a Go program does by itself.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
)

func removeListed(list string) error {
	file, err := os.Open(list)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if err := os.Remove(lines.Text()); err != nil {
			return err
		}
	}
	return lines.Err()
}

func main() {
	list := flag.String("list", "", "remove the files that this file names, one a line")
	flag.Parse()
	var err error
	switch {
	case *list != "" && flag.NArg() == 0:
		err = removeListed(*list)
	case *list == "" && flag.NArg() == 1:
		err = os.RemoveAll(flag.Arg(0))
	default:
		fmt.Fprintln(os.Stderr, "usage: goremove TREE | goremove -list=FILE")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "goremove:", err)
		os.Exit(1)
	}
}
