import type { IncomingMessage } from 'node:http'
import { Problem } from './problem.js'

/**
 * Which requests are accepted. The server listens on the loopback interface without authentication, so it must refuse
 * web pages: a browser sends its requests from this machine too. A page can reach it by a host name of its own (DNS
 * rebinding), and can send text/plain without asking first (a "simple request"), so both are refused.
 */
export function checkSender({ headers, method }: IncomingMessage): void {
  const host = headers.host ?? ''
  if (!isLoopback(host)) {
    throw new Problem(
      403,
      'Forbidden',
      `This server is not ${host || 'without a name'}; call it by 127.0.0.1 or localhost.`,
      {
        code: 'FOREIGN_HOST',
      },
    )
  }
  if (headers.origin !== undefined && headers.origin !== `http://${host}`) {
    throw new Problem(403, 'Forbidden', `Requests of web pages from ${headers.origin} are not accepted.`, {
      code: 'FOREIGN_ORIGIN',
    })
  }
  if (method === 'POST' && !isJson(headers['content-type'])) {
    throw new Problem(415, 'Unsupported Media Type', 'Send the body as application/json, and say so in Content-Type.', {
      code: 'NOT_JSON',
    })
  }
}

function isLoopback(host: string): boolean {
  return /^(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?$/i.test(host)
}

function isJson(contentType: string | undefined): boolean {
  return contentType?.split(';')[0]?.trim().toLowerCase() === 'application/json'
}
