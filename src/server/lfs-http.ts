/** What is HTTP about Git LFS: who asks (Basic, which nothing else takes), its media type, and how it is told what is wrong. */
import { parseHolder } from '../core/input.ts'
import { callerOf, localCaller, type Caller } from './caller.ts'
import { refuseForeignPages } from './host-check.ts'
import type { LfsAnswer, LfsRepository } from './lfs.ts'
import { forbidden, HttpError, problemOf, unauthenticated } from './problem.ts'
import type { Role } from './token.ts'
import type { TokenFile } from './token-file.ts'

const TYPE = 'application/vnd.git-lfs+json'
/** Where the files of the repository are; empty where the server was not told of it. */
export const LFS_ROOT_HEADER = 'Tenure-Repository-Root'
export const LFS_MEDIA_TYPE: RegExp = /^application\/(vnd\.git-lfs\+)?json(\s*;.*)?$/i

interface Credentials {
  readonly authorization: string | null
  readonly host: string | null
  readonly origin: string | null
}

export interface LfsCaller {
  readonly caller: Caller
  /** The user's name. */
  readonly holder: string
}

/**
 * User: the holder; password: the token, or anything where nobody needs one. A browser could be made to send both.
 *
 * 401 asks for credentials, so only a caller without any gets it: git-lfs answers each 401 with the same credentials again, for
 * ever. A wrong token is 403, which ends the command with the message.
 */
export function lfsCaller(
  { tokens, localRole }: { readonly tokens: TokenFile | null; readonly localRole: Role },
  { authorization, host, origin }: Credentials,
): LfsCaller {
  if (origin !== null) throw forbidden('Origin must not be given', { field: 'Origin' })
  if (tokens === null) refuseForeignPages(host ?? undefined, undefined)
  const [, encoded] = /^Basic ([A-Za-z0-9+/=]+)$/i.exec(authorization ?? '') ?? []
  const [, user, password] =
    /^([^:]+):(.*)$/s.exec(Buffer.from(encoded ?? '', 'base64').toString()) ?? []
  if (user === undefined || password === undefined) throw missing()
  const holder = parseHolder(user)
  if (tokens === null) return { caller: localCaller(localRole), holder }
  const token = tokens.tokenOf(password)
  if (token === null) throw forbidden('the password must be a valid token', { field: 'password' })
  return { caller: callerOf(token), holder }
}

function missing(): HttpError {
  const { error } = unauthenticated('a user and a token must be given')
  const headers = { 'LFS-Authenticate': 'Basic realm="tenure"' }
  return new HttpError(error, { status: 401, headers })
}

/** `tenure doctor` asks whether the server knows the repository; clients pass over the header. */
export function lfsResponse({ status, body }: LfsAnswer, { root }: LfsRepository): Response {
  return respond(status, body, { [LFS_ROOT_HEADER]: encodeURI(root ?? '') })
}

export function lfsProblem(thrown: unknown): Response {
  const { problem, headers } = problemOf(thrown)
  return respond(problem.status, { message: problem.detail }, headers)
}

function respond(status: number, body: object, more: Readonly<Record<string, string>>): Response {
  const headers = { 'Content-Type': TYPE, 'Cache-Control': 'no-store', ...more }
  return new Response(`${JSON.stringify(body)}\n`, { status, headers })
}
