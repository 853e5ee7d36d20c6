/**
 * The file that tokens are kept in: readable by its owner only, replaced as a whole, and read again when it changes, so
 * that a token that was revoked is refused from the next request on.
 *
 * A file that cannot be read any more, or that makes no sense, allows nobody anything until it can be: whoever revoked a
 * token must not find it valid because of a typing mistake.
 */
import { invalid } from '../core/errors.ts'
import { readText, replacePrivateFile, requirePrivate, using } from '../delegation/key-file.ts'
import { report } from '../runtime/diagnostics.ts'
import { fs } from '../runtime/file-system.ts'
import { hashOf, newSecret, tokenOf, type Role, type Token, type TokenLimits } from './token.ts'
import { formatTokens, parseToken, parseTokens } from './wire/token-records.ts'

/** Empty where there is no file yet. */
export function readTokenFile(file: string): readonly Token[] {
  const status = using(file, () => fs.statSync(file, { throwIfNoEntry: false }))
  if (status === undefined) return []
  requirePrivate('tokens', file, status.mode)
  return parseTokens(readText(file))
}

export interface TokenRequest extends Partial<TokenLimits> {
  readonly name: string
  readonly role: Role
  readonly as?: readonly string[]
  readonly namespace?: string
  readonly resources?: readonly string[]
}

export interface CreatedToken {
  readonly token: Token
  /** Shown once. */
  readonly secret: string
}

/** Whoever names no holder may act as the one that has the token's name. */
export function createToken(file: string, request: TokenRequest, nowMs: number): CreatedToken {
  const tokens = readTokenFile(file)
  if (tokens.some(({ name }) => name === request.name)) {
    throw invalid('name', 'must be new', request.name)
  }
  const secret = newSecret()
  const { as = [request.name], namespace = 'default', resources = [] } = request
  const token = parseToken({
    ...{ ...request, as, namespace, resources },
    hash: hashOf(secret),
    createdAtMs: nowMs,
  })
  replacePrivateFile(file, formatTokens([...tokens, token]))
  return { token, secret }
}

export function revokeToken(file: string, name: string): Token {
  const tokens = readTokenFile(file)
  const token = tokens.find((candidate) => candidate.name === name)
  if (token === undefined) throw invalid('name', 'must be that of a token', name)
  replacePrivateFile(file, formatTokens(tokens.filter((candidate) => candidate !== token)))
  return token
}

/** The tokens of a file, as it stands at the moment of the question. */
export class TokenFile {
  readonly #file: string
  #read: { readonly mark: string; readonly tokens: readonly Token[] } | null = null

  /** Throws for a file that is not there or makes no sense: a server must not start with it. */
  constructor(file: string) {
    this.#file = file
    const mark = markOf(file)
    if (mark === null) throw invalid('tokens', 'must be a file that tokens create has made', file)
    this.#read = { mark, tokens: readTokenFile(file) }
  }

  tokenOf(secret: string): Token | null {
    return tokenOf(this.#tokens(), secret)
  }

  /** Whether a token that was valid once still is, with all it says. */
  has(token: Token): boolean {
    return this.#tokens().includes(token)
  }

  #tokens(): readonly Token[] {
    const mark = markOf(this.#file)
    if (mark === this.#read?.mark) return this.#read?.tokens ?? []
    this.#read = { mark: mark ?? '', tokens: this.#readAgain() }
    return this.#read.tokens
  }

  /** Tokens that have not changed stay the objects that they were. */
  #readAgain(): readonly Token[] {
    const known = new Map(this.#read?.tokens.map((token) => [JSON.stringify(token), token]))
    try {
      return readTokenFile(this.#file).map((token) => known.get(JSON.stringify(token)) ?? token)
    } catch (error) {
      report('server/tokens', error)
      return []
    }
  }
}

/** Changes whenever the file was replaced or written to; null where there is none. */
function markOf(file: string): string | null {
  const status = fs.statSync(file, { bigint: true, throwIfNoEntry: false })
  return status === undefined ? null : `${status.ino}.${status.mtimeNs}.${status.size}`
}
