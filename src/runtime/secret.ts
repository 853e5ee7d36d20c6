/** Secrets of 256 random bits, as text that needs no escaping in a header or a shell. */

const SECRET_BYTES = 32

export function randomSecret(): string {
  const bytes = globalThis.crypto.getRandomValues(new Uint8Array(SECRET_BYTES))
  return Buffer.from(bytes).toString('base64url')
}
