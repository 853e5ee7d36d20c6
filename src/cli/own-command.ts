/** How another program calls this one. */
import path from 'node:path'
import { fs, ifThere } from '../runtime/file-system.ts'
import type { Env } from './default-store.ts'

/** Directories that npm puts before the path for what it runs, and that no other program will find. */
const BY_NPM = /[\\/]node_modules[\\/]\.bin[\\/]?$/

/** `tenure`, where a shell would find it; otherwise the very program that runs now, by its full name. */
export function ownCommand(env: Env): readonly string[] {
  const directories = (env['PATH'] ?? '').split(path.delimiter)
  const isThere = directories.some((directory) => {
    return directory !== '' && !BY_NPM.test(directory) && isProgram(path.join(directory, 'tenure'))
  })
  if (isThere) return ['tenure']
  return [process.execPath, fs.realpathSync(process.argv[1] ?? '')]
}

function isProgram(file: string): boolean {
  const status = ifThere(() => fs.statSync(file))
  return status?.isFile() === true && (status.mode & 0o111) !== 0
}
