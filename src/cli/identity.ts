/** On which store, in which namespace and in whose name a command acts: options first, then environment, then defaults. */
import os from 'node:os'
import path from 'node:path'
import { invalid } from '../core/errors.ts'
import { parseHolder, parseSession } from '../core/input.ts'
import { parseNamespace } from '../core/resource.ts'
import { report } from '../runtime/diagnostics.ts'
import { hasCode } from '../runtime/file-system.ts'
import { escapedPath } from '../store-address.ts'
import { defaultStoreUrl, type Env } from './default-store.ts'

export interface IdentityOptions {
  readonly store: string | undefined
  readonly namespace: string | undefined
  readonly holder: string | undefined
  readonly session: string | undefined
}

export interface Identity {
  readonly url: string
  /** Whether it was named, and is not that of the working directory. */
  readonly isNamed: boolean
  /** Null when none was named: then the URL may, or it is `default`. */
  readonly namespace: string | null
  readonly holder: string
  /** Null when none was named: one-shot commands then use the holder's name, `run` one of its own. */
  readonly session: string | null
  /** For a server of Tenure; null when none was named. */
  readonly token: string | null
}

export function identify(options: IdentityOptions, cwd: string, env: Env): Identity {
  const holder = options.holder ?? fromEnv(env, 'TENURE_HOLDER') ?? defaultHolder(env)
  const store = options.store ?? fromEnv(env, 'TENURE_STORE')
  const namespace = options.namespace ?? fromEnv(env, 'TENURE_NAMESPACE')
  const session = options.session ?? fromEnv(env, 'TENURE_SESSION')
  return {
    url: store === undefined ? defaultStoreUrl(cwd, env) : absoluteUrl(store, cwd),
    isNamed: store !== undefined,
    namespace: namespace === undefined ? null : parseNamespace(namespace),
    holder: parseHolder(holder),
    session: session === undefined ? null : parseSession(session),
    token: fromEnv(env, 'TENURE_TOKEN') ?? null,
  }
}

/** The store that was named, or else that of a directory's repository. */
export function storeFor({ url, isNamed }: Identity, directory: string, env: Env): string {
  return isNamed ? url : defaultStoreUrl(directory, env)
}

/**
 * A variable that is set and empty is most often one whose value went missing; passing over it would put a caller that meant a
 * shared store into one of its own. One that is no UTF-8 could become another holder's name.
 */
export function fromEnv(env: Env, name: string): string | undefined {
  const value = env[name]
  if (value === undefined) return undefined
  if (value === '') throw invalid(name, 'must have a value or not be set', value)
  if (value.includes('\ufffd')) throw invalid(name, 'must be valid UTF-8', value)
  return value
}

/** Children of `run` get the URL and may work in another directory, so a relative path is settled here. */
function absoluteUrl(url: string, cwd: string): string {
  if (url === '') throw invalid('store', 'must be a URL such as sqlite:leases.db', url)
  const [, file, query = ''] = /^sqlite:(?![/:])([^?]+)(\?.*)?$/.exec(url) ?? []
  return file === undefined ? url : `sqlite:${path.resolve(escapedPath(cwd), file)}${query}`
}

function defaultHolder(env: Env): string {
  return `${userName(env)}@${os.hostname()}`
}

/** A user id without an entry in the user database, as containers have it, still has a number. */
function userName(env: Env): string {
  try {
    return os.userInfo().username
  } catch (error) {
    const hasNone = error instanceof Error && 'info' in error && hasCode(error.info, 'ENOENT')
    if (!hasNone) report('cli/user-name', error)
    return env['USER'] || `uid-${process.getuid?.() ?? 'unknown'}`
  }
}
