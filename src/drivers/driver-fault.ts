/**
 * What it means that a driver could not be loaded. The package may be missing, built for another version of Node, or
 * broken by what a bundler made of it: the message names the cause, and only a package that was not found is called
 * not installed.
 */
import { LeaseError, messageOf } from '../core/errors.ts'
import { hasCode } from '../runtime/file-system.ts'

export interface DriverPackage {
  readonly name: 'better-sqlite3' | 'ioredis' | 'pg'
  /** What needs it, as the subject of the message: `redis: stores`. */
  readonly needed: string
  /** What npm is asked to install, with the version where not any will do. */
  readonly install: string
}

/** The error to throw for what importing the driver, or using it for the first time, threw. */
export function driverFault(driver: DriverPackage, cause: unknown): LeaseError {
  const said = messageOf(cause)
  const message =
    `${driver.needed} need the package ${driver.name}, which could not be loaded: ${sentenceOf(said)}; ` +
    adviceFor(driver, cause, said)
  return new LeaseError('STORE_UNAVAILABLE', message, { cause })
}

const TOOLCHAIN =
  '(where no prebuilt binary fits it is compiled, which takes python3, make and a C++ compiler: ' +
  '"apt-get install python3 make g++" on Debian, "xcode-select --install" on macOS)'

function adviceFor(driver: DriverPackage, cause: unknown, said: string): string {
  const { name } = driver
  const install = `"npm install ${driver.install}"`
  if (isNotFound(name, cause, said)) {
    return `install it with ${install}${name === 'better-sqlite3' ? ` ${TOOLCHAIN}` : ''}`
  }
  if (isNotBuilt(cause, said)) {
    return `build it for this version of Node with "npm rebuild ${name}" ${TOOLCHAIN}`
  }
  return (
    'in a bundle, leave it out as an external package or pass a client of your own (docs/recipes/bundling.md); ' +
    `else install it again with ${install}`
  )
}

/** The package itself, not something that it asks for in turn. */
function isNotFound(name: string, cause: unknown, said: string): boolean {
  const isMissing = hasCode(cause, 'ERR_MODULE_NOT_FOUND', 'MODULE_NOT_FOUND')
  return isMissing && new RegExp(`^Cannot find (package|module) '${name}'`).test(said)
}

/** Its compiled part is absent, because install scripts did not run, or fits another version of Node or of the system. */
function isNotBuilt(cause: unknown, said: string): boolean {
  return hasCode(cause, 'ERR_DLOPEN_FAILED') || said.startsWith('Could not locate the bindings')
}

/** In one line, without the list of places that were tried and without advice that is given better here. */
function sentenceOf(said: string): string {
  const [sentence = ''] = said.replaceAll(/\s+/g, ' ').split(/ (?:Require stack|Tried): ?/)
  return sentence.split('. Please try')[0] ?? sentence
}
