/** A repository of stock git in a directory that is gone afterwards, with `tenure` on the path of its hooks. */
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { onTestFinished } from 'vitest'
import { hostedTenure, MAIN, startProgram, type Ended } from '../cli/tenure-process.ts'

/** Nothing of the configuration of whoever runs the tests. */
const GIT_ENV: Readonly<Record<string, string>> = {
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_CONFIG_SYSTEM: '/dev/null',
  GIT_AUTHOR_NAME: 'Ann',
  GIT_AUTHOR_EMAIL: 'ann@example.org',
  GIT_COMMITTER_NAME: 'Ann',
  GIT_COMMITTER_EMAIL: 'ann@example.org',
}

export interface Place {
  /** Where, instead of the top of the repository. */
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
}

export interface TemporaryRepository {
  readonly root: string
  /** Beside the repository; for other repositories. */
  readonly directory: string
  /** Runs git as ann, whatever comes of it. */
  attempt(args: readonly (string | Buffer)[], place?: Place): Promise<Ended>
  /** Runs a line of shell, whatever comes of it. */
  shell(line: string, place?: Place): Promise<Ended>
  /** Runs git, which must succeed; gives what it prints. */
  git(...args: readonly string[]): string
  /** A file below the top, with its text. */
  write(name: string, text?: string): void
  /** Runs a command that must succeed. */
  tenure(args: readonly string[], place?: Place): Promise<string>
  /** Runs a command as a process, whatever comes of it. */
  run(args: readonly string[], place?: Place): Promise<Ended>
}

export function temporaryRepository(options: readonly string[] = []): TemporaryRepository {
  const directory = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-git-')))
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }))
  const programs = path.join(directory, 'bin')
  fs.mkdirSync(programs)
  const script = `#!/bin/sh\nexec '${process.execPath}' '${MAIN}' "$@"\n`
  fs.writeFileSync(path.join(programs, 'tenure'), script, { mode: 0o755 })
  const root = path.join(directory, 'repo')
  const base = {
    ...GIT_ENV,
    PATH: `${programs}:${process.env['PATH']}`,
    HOME: directory,
    TENURE_HOLDER: 'ann',
  }
  const placed = ({ cwd = root, env = {} }: Place = {}) => ({ cwd, env: { ...base, ...env } })
  const git = (...args: readonly string[]): string => {
    const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('GIT_'))
    const env = { ...Object.fromEntries(inherited), ...base }
    const ended = spawnSync('git', args, { cwd: root, env, encoding: 'utf8' })
    if (ended.status !== 0) throw new Error(`git ${args.join(' ')}: ${ended.stderr}`)
    return ended.stdout.trimEnd()
  }
  fs.mkdirSync(root)
  git('init', '--quiet', '--initial-branch=main', ...options)
  return {
    root,
    directory,
    git,
    attempt: async (args, place) => startProgram(['git', ...args.map(String)], placed(place)).ended,
    shell: async (line, place) => startProgram(['sh', '-c', line], placed(place)).ended,
    write: (name, text = name) => {
      const file = path.join(root, name)
      fs.mkdirSync(path.dirname(file), { recursive: true })
      fs.writeFileSync(file, text)
    },
    tenure: async (args, place) => {
      const { code, stdout, stderr } = await hostedTenure(args, placed(place))
      if (code !== 0) throw new Error(`tenure ${args.join(' ')} ended with ${code}: ${stderr}`)
      return stdout
    },
    run: async (args, place) =>
      startProgram([path.join(programs, 'tenure'), ...args], placed(place)).ended,
  }
}

/** The hooks by hand, each alone. */
export function withGuards(repository: TemporaryRepository): TemporaryRepository {
  const hooks = repository.git('rev-parse', '--path-format=absolute', '--git-path', 'hooks')
  fs.mkdirSync(hooks, { recursive: true })
  for (const hook of ['pre-commit', 'pre-push']) {
    const script = `#!/bin/sh\nexec tenure git ${hook} "$@"\n`
    fs.writeFileSync(path.join(hooks, hook), script, { mode: 0o755 })
  }
  return repository
}
