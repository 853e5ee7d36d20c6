/** Projects of users, in directories of their own: the package as it would be published, and the drivers they chose. */
import { execFile } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { startProgram, type Ended } from '../cli/tenure-process.ts'

export const ROOT: string = fileURLToPath(new URL('../../', import.meta.url))
const run = promisify(execFile)

/** A directory that is gone after `remove`. */
export interface Place {
  readonly directory: string
  remove(): void
}

export function temporaryPlace(): Place {
  const directory = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-project-')))
  return { directory, remove: () => fs.rmSync(directory, { recursive: true, force: true }) }
}

/** Makes the package out of what is built, and unpacks it, as npm does, into `node_modules` of the directory. */
export async function installPackage(directory: string): Promise<void> {
  const target = path.join(directory, 'node_modules', 'tenure')
  fs.mkdirSync(target, { recursive: true })
  const packing = ['pack', '--ignore-scripts', '--json', '--pack-destination', directory]
  const { stdout } = await run('npm', packing, { cwd: ROOT })
  const [made] = JSON.parse(stdout) as { readonly filename: string }[]
  const archive = path.join(directory, made?.filename ?? '')
  await run('tar', ['-xzf', archive, '-C', target, '--strip-components=1'])
  fs.rmSync(archive)
}

/** Installs packages that the repository has, with all that they need. */
export function link(directory: string, ...packages: readonly string[]): void {
  for (const name of packages) {
    const place = path.join(directory, 'node_modules', name)
    fs.mkdirSync(path.dirname(place), { recursive: true })
    fs.symlinkSync(path.join(ROOT, 'node_modules', name), place, 'dir')
  }
}

/** Runs a program to its end in the directory. */
export function runIn(directory: string, command: readonly string[]): Promise<Ended> {
  return startProgram(command, { cwd: directory }).ended
}
