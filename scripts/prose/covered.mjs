/** Files and folders whose English is checked: `git ls-files` patterns. A folder is added when it is clean. */
export const covered = ['CONTRIBUTING.md', 'scripts']
