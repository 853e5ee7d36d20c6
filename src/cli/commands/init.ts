/** `tenure init`: puts Tenure into what must ask it, and takes it out again. */
import path from 'node:path'
import { invalid } from '../../core/errors.ts'
import { fs } from '../../runtime/file-system.ts'
import { flag } from '../arguments.ts'
import { type CliCommand, defineCommand } from '../command.ts'
import type { Env } from '../default-store.ts'
import { applyChange, changeText, changeWords, type FileChange } from '../file-change.ts'
import { CLIENT_SETTINGS } from '../init/client-settings.ts'
import { hooksToInstall, hooksToRemove } from '../init/git-hooks.ts'
import { LFS_FILE, lfsToInstall, lfsToRemove } from '../init/lfs-settings.ts'
import { MCP_FILE, mcpPlan } from '../init/mcp-settings.ts'
import {
  hooksPlan,
  type SettingsPlan,
  settingsToInstall,
  settingsToRemove,
} from '../init/settings-file.ts'
import { shellWord, visible } from '../output.ts'

/** What can be set up, and what that changes. */
interface Target {
  readonly install: (cwd: string, command: readonly string[]) => Promise<readonly FileChange[]>
  readonly remove: (cwd: string) => Promise<readonly FileChange[]>
}

const git: Target = {
  install: async (cwd, command) => hooksToInstall(cwd, command.map(shellWord).join(' ')),
  remove: hooksToRemove,
}

function settingsTarget(plan: (command: readonly string[]) => SettingsPlan): Target {
  return {
    install: async (cwd, command) => settingsToInstall(plan(command), cwd),
    remove: async (cwd) => settingsToRemove(plan([]), cwd),
  }
}

const clients = Object.entries(CLIENT_SETTINGS).map(([client, settings]): [string, Target] => {
  return [client, settingsTarget((command) => hooksPlan(client, settings, command))]
})

const TARGETS: Readonly<Record<string, Target>> = {
  ...Object.fromEntries(clients),
  mcp: settingsTarget(mcpPlan),
  lfs: { install: lfsToInstall, remove: lfsToRemove },
  git,
}

const CLIENT_FILES = Object.entries(CLIENT_SETTINGS)
  .map(([client, { file }]) => `${client} (${file})`)
  .join(', ')
const NAMES = Object.keys(TARGETS).join(', ')

export const init: CliCommand = defineCommand({
  positionals: [{ name: 'TARGET', help: NAMES }],
  options: {
    write: flag('make the changes; without it they are only shown'),
    remove: flag('take out again what was put in'),
  },
  notes: [
    `A coding agent's client, with hooks that call tenure hook: ${CLIENT_FILES}, from the top of the worktree. Comments in it are fine. A copy of what was there is kept beside it.`,
    `mcp: the server tenure mcp, in ${MCP_FILE}, for clients that read it there.`,
    `lfs: the locks of tenure serve --repo, in ${LFS_FILE}, for everybody who clones the repository. Change the URL there to that of your server.`,
    'git: the hooks pre-commit and pre-push, where git looks for them (core.hooksPath too), which refuse what touches the leases of others. A hook that is there is kept and still called.',
    'What is there already is kept byte for byte, and --remove gives it back. Setting up twice changes nothing. tenure doctor then proves that what was set up works.',
  ],
  examples: ['tenure init claude', 'tenure init git --write', 'tenure init git --remove'],
  run: async ({ positionals, options, printer, cwd }) => {
    const [name = ''] = positionals
    const target = Object.hasOwn(TARGETS, name) ? TARGETS[name] : undefined
    if (target === undefined) throw invalid('TARGET', `must be among ${NAMES}`, name)
    if (options.write && options.remove)
      throw invalid('remove', 'must not be given beside write', true)
    const isRemoval = options.remove === true
    const command = ownCommand(process.env)
    const changes = isRemoval ? await target.remove(cwd) : await target.install(cwd, command)
    const written = options.write === true || isRemoval
    if (written) for (const change of changes) applyChange(change)
    const answer = { target: name, written, changes: changes.map(plainChange) }
    const show = (): string => {
      if (changes.length === 0)
        return isRemoval ? 'nothing is there to remove' : 'all is there already'
      const text = written ? changeWords : changeText
      const lines = changes.flatMap((change) => text(change, cwd).split('\n'))
      return lines.map(visibleLine).join('\n')
    }
    const done = changes.map((change) => changeWords(change, cwd)).join('; ')
    if (written && done !== '') printer.effect(done, answer, show)
    else printer.answer(answer, show)
    if (changes.length > 0 && !isRemoval && command.length > 1) {
      printer.remark('no tenure is on the path, so that this program is called by its full name')
    }
    if (!written && changes.length > 0) printer.remark('nothing is changed yet; --write does it')
    return 0
  },
})

/** Tabs are what a file of git has. */
function visibleLine(line: string): string {
  return line.split('\t').map(visible).join('\t')
}

function plainChange(change: FileChange): Readonly<Record<string, string>> {
  const { kind, file } = change
  if (kind === 'move') return { action: 'move', file, to: change.to }
  if (kind === 'remove') return { action: 'remove', file }
  const backup = change.backup === undefined ? {} : { backup: change.backup }
  return { action: change.before === null ? 'make' : 'change', file, ...backup }
}

/** Directories that npm puts before the path for what it runs, and that no other program will find. */
const BY_NPM = /[\\/]node_modules[\\/]\.bin[\\/]?$/

/** `tenure`, where a shell would find it; otherwise the very program that runs now, by its full name. */
function ownCommand(env: Env): readonly string[] {
  const directories = (env['PATH'] ?? '').split(path.delimiter)
  const isThere = directories.some((directory) => {
    return directory !== '' && !BY_NPM.test(directory) && isProgram(path.join(directory, 'tenure'))
  })
  if (isThere) return ['tenure']
  return [process.execPath, fs.realpathSync(process.argv[1] ?? '')]
}

function isProgram(file: string): boolean {
  try {
    fs.accessSync(file, fs.constants.X_OK)
    return fs.statSync(file).isFile()
  } catch {
    // No fault: what this process cannot look into or run, a shell passes over.
    return false
  }
}
